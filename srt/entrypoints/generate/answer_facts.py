"""`AnswerFacts`: what of a native request shapes its answers, whole or streamed."""

from collections.abc import Sequence
from dataclasses import dataclass

from srt.engine_client import EngineClient, GenerateRequest, Generation, LogprobOptions
from srt.entrypoints.generate.logprobs import TextOf, no_text
from srt.entrypoints.generate.protocol import NativeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """Of one request. Choices are numbered through all prompts."""

    rid: str
    rids: Sequence[str]  # one a prompt, if the client gave such
    num_samples: int
    logprobs: Sequence[LogprobOptions | None]
    text_of: TextOf
    prompt_token_ids: Sequence[Sequence[int]] | None  # where the client wants them back
    dp_rank: int | None

    @staticmethod
    def of(
        body: NativeRequest, request: GenerateRequest, generation: Generation, client: EngineClient
    ) -> "AnswerFacts":
        """Those of a request that has been dispatched."""

        def text_of(token_id: int) -> str:
            return client.token_bytes(token_id).decode(errors="replace")

        return AnswerFacts(
            rid=generation.request_id,
            rids=request.rids,
            num_samples=request.sampling[0].n,
            logprobs=request.logprobs,
            text_of=text_of if body.return_text_in_logprobs else no_text,
            prompt_token_ids=generation.prompt_token_ids if body.return_prompt_token_ids else None,
            dp_rank=request.dp_rank,
        )

    def rid_of(self, index: int) -> str:
        """The rid of a choice's prompt."""
        return self.rids[index // self.num_samples] if self.rids else self.rid

    def logprobs_of(self, index: int) -> LogprobOptions | None:
        """What a choice's prompt asked for."""
        return self.logprobs[index // self.num_samples] if self.logprobs else None

    def prompt_of(self, index: int) -> Sequence[int] | None:
        """The ids of a choice's prompt, if they are wanted."""
        ids = self.prompt_token_ids
        return None if ids is None else ids[index // self.num_samples]
