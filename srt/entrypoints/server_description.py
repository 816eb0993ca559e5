"""/model_info and /server_info: what is served, and with which flags, secrets left out."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import srt
from srt.engine_client import EngineClient
from srt.server_args.checks import public_flags
from srt.server_args.server_args import ServerArgs


class ServerDescription:
    """The two endpoints. Names and JSON types are those that SGLang's gateway reads."""

    def __init__(self, client: EngineClient, args: ServerArgs) -> None:
        self._client = client
        self._flags = public_flags(args)

    async def model_info(self, request: Request) -> Response:
        """What is served."""
        model = self._client.model_info
        return JSONResponse(
            {
                "model_path": model.model_path,
                "served_model_name": model.served_model_name,
                "tokenizer_path": model.tokenizer_path,
                "is_generation": True,
                "preferred_sampling_params": None,
                "default_sampling_params": dict(model.default_sampling),
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": model.model_type,
                "architectures": [model.architecture],
                "context_length": model.context_length,
                "vocab_size": model.vocab_size,
                "has_chat_template": model.has_chat_template,
                "tool_call_parser": model.tool_call_parser,
                "reasoning_parser": model.reasoning_parser,
            }
        )

    async def server_info(self, request: Request) -> Response:
        """Every flag as given, the names decided on, and figures of every replica and HTTP process."""
        model = self._client.model_info
        states = await self._client.server_states()
        return JSONResponse(
            {
                **self._flags,
                "model_path": model.model_path,
                "tokenizer_path": model.tokenizer_path,
                "served_model_name": model.served_model_name,
                "internal_states": [dict(state) for state in states],
                "tokenizer_workers": [dict(state) for state in self._client.worker_states()],
                "version": srt.__version__,
            }
        )
