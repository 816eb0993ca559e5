"""Every path and its handler.

Next on the request's path: srt/entrypoints/openai/chat/handler.py
"""

from starlette.routing import BaseRoute, Route

from srt.engine_client import EngineClient
from srt.entrypoints.admin import Admin
from srt.entrypoints.anthropic.handler import CountTokens, Messages
from srt.entrypoints.generate.handler import Generate
from srt.entrypoints.health import HealthChecks
from srt.entrypoints.loads import Loads
from srt.entrypoints.metrics import Metrics
from srt.entrypoints.openai.chat.handler import ChatCompletions
from srt.entrypoints.openai.completions.handler import Completions
from srt.entrypoints.openai.models import Models
from srt.entrypoints.openai.responses.handler import Responses
from srt.entrypoints.openapi.handler import SelfDescription
from srt.entrypoints.parse import Parsing
from srt.entrypoints.playground import Playground
from srt.entrypoints.rerank.handler import Rerank
from srt.entrypoints.score.handler import Score
from srt.entrypoints.server_description import ServerDescription
from srt.entrypoints.tokenize import Tokenization
from srt.server_args.server_args import ServerArgs


def build_routes(client: EngineClient, args: ServerArgs) -> list[BaseRoute]:
    """The table. Second names of a path are SGLang's older ones, or OpenAI's prefix."""
    models = Models(client)
    tokenization = Tokenization(client)
    parsing = Parsing(client)
    health = HealthChecks(client)
    description = ServerDescription(client, args)
    about = SelfDescription(client, args)
    loads = Loads(client)
    admin = Admin(client)
    return [
        # Generation
        Route("/v1/chat/completions", ChatCompletions(client), methods=["POST"]),
        Route("/v1/completions", Completions(client), methods=["POST"]),
        Route(
            "/generate",
            Generate(client, is_incremental=args.incremental_streaming_output),
            methods=["POST", "PUT"],
        ),
        Route("/v1/responses", Responses(client), methods=["POST"]),
        Route("/v1/messages", Messages(client), methods=["POST"]),
        Route("/v1/messages/count_tokens", CountTokens(client), methods=["POST"]),
        # How likely, how fitting
        Route("/v1/score", Score(client), methods=["POST"]),
        Route("/v1/rerank", Rerank(client), methods=["POST", "PUT"]),
        # The model and its tokens
        Route("/v1/models", models.list_models, methods=["GET"]),
        Route("/v1/models/{model:path}", models.get_model, methods=["GET"]),
        Route("/tokenize", tokenization.tokenize, methods=["POST"]),
        Route("/v1/tokenize", tokenization.tokenize, methods=["POST"]),
        Route("/detokenize", tokenization.detokenize, methods=["POST"]),
        Route("/v1/detokenize", tokenization.detokenize, methods=["POST"]),
        # An answer's parts
        Route("/parse_function_call", parsing.parse_function_call, methods=["POST"]),
        Route("/separate_reasoning", parsing.separate_reasoning, methods=["POST"]),
        # Health
        Route("/live", health.check_alive, methods=["GET"]),
        Route("/health", health.check, methods=["GET"]),
        Route("/ready", health.check, methods=["GET"]),
        Route("/ping", health.check, methods=["GET"]),
        Route("/health_generate", health.check_by_generating, methods=["GET"]),
        # What runs here, and how busy it is
        Route("/", about.about, methods=["GET"]),
        Route("/docs", about.docs, methods=["GET"]),
        Route("/playground", Playground().page, methods=["GET"]),
        Route("/openapi.json", about.openapi, methods=["GET"]),
        Route("/model_info", description.model_info, methods=["GET"]),
        Route("/get_model_info", description.model_info, methods=["GET"]),
        Route("/server_info", description.server_info, methods=["GET"]),
        Route("/get_server_info", description.server_info, methods=["GET"]),
        Route("/metrics", Metrics(client, args).metrics, methods=["GET"]),
        Route("/v1/loads", loads.loads, methods=["GET"]),
        Route("/get_load", loads.get_load, methods=["GET"]),
        # Control
        Route("/flush_cache", admin.flush_cache, methods=["GET", "POST"]),
        Route("/abort_request", admin.abort_request, methods=["POST"]),
    ]
