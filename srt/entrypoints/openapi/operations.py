"""Every endpoint in words and types: what /openapi.json is made of. One entry for each handler of routes.py.

Types are those that handlers decode and encode, so that the description cannot say otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srt.entrypoints.admin import MAX_FLUSH_TIMEOUT_S, AbortBody
from srt.entrypoints.anthropic.protocol import (
    CountTokensRequest,
    CountTokensResponse,
    ErrorMessage,
    MessageResponse,
    MessagesRequest,
    StreamEvent,
)
from srt.entrypoints.generate.protocol import NativeRequest
from srt.entrypoints.loads import SECTIONS
from srt.entrypoints.openai.chat.protocol import ChatChunk, ChatRequest, ChatResponse
from srt.entrypoints.openai.completions.protocol import CompletionRequest, CompletionResponse
from srt.entrypoints.openai.responses.answer import Response
from srt.entrypoints.openai.responses.events import ResponseEvent
from srt.entrypoints.openai.responses.protocol import ResponsesRequest
from srt.entrypoints.openapi import answers
from srt.entrypoints.parse import (
    ParseFunctionCallRequest,
    ParseFunctionCallResponse,
    SeparateReasoningRequest,
    SeparateReasoningResponse,
)
from srt.entrypoints.rerank.protocol import RankedDocument, RerankRequest
from srt.entrypoints.score.protocol import ScoreRequest, ScoreResponse
from srt.entrypoints.tokenize import DetokenizeRequest, TokenizeRequest


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A part of the path or of the query."""

    name: str
    place: str  # "path" or "query"
    schema: Mapping[str, Any]
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What one handler does, under all its paths and methods."""

    paths: tuple[str, ...]  # as in routes.py
    methods: tuple[str, ...] = ("POST",)
    tag: str
    summary: str
    body: type | None = None
    example: Any = None  # of a body
    answer: Any = None  # a type; None: no JSON
    event: Any = None  # of a stream, if there can be one
    other_media_type: str | None = None  # what else a 200 can be, beside JSON
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = (400,)  # beside those that any request can meet
    error: Any = answers.ErrorAnswer  # what every error of it is


_HELLO = [{"role": "user", "content": "Name three rivers."}]
# What an engine may say to a request that it has to compute.
_GENERATION_ERRORS = (400, 503, 504)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        paths=("/v1/chat/completions",),
        tag="Generation",
        summary="Answer a conversation (OpenAI)",
        body=ChatRequest,
        example={"messages": _HELLO, "max_tokens": 60},
        answer=ChatResponse,
        event=ChatChunk,
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/v1/completions",),
        tag="Generation",
        summary="Go on with a text (OpenAI)",
        body=CompletionRequest,
        example={"prompt": "The three longest rivers are", "max_tokens": 30},
        answer=CompletionResponse,
        event=CompletionResponse,
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/generate",),
        methods=("POST", "PUT"),
        tag="Generation",
        summary="Go on with texts or token ids (SGLang)",
        body=NativeRequest,
        example={"text": "The three longest rivers are", "sampling_params": {"max_new_tokens": 30}},
        answer=answers.NativeAnswer | list[answers.NativeAnswer],
        event=answers.NativeAnswer,
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/v1/responses",),
        tag="Generation",
        summary="Answer a conversation (OpenAI's newer way)",
        body=ResponsesRequest,
        example={"input": "Name three rivers.", "max_output_tokens": 60},
        answer=Response,
        event=ResponseEvent,
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/v1/messages",),
        tag="Generation",
        summary="Answer a conversation (Anthropic)",
        body=MessagesRequest,
        example={"model": "default", "messages": _HELLO, "max_tokens": 60},
        answer=MessageResponse,
        event=StreamEvent,
        errors=_GENERATION_ERRORS,
        error=ErrorMessage,
    ),
    Operation(
        paths=("/v1/messages/count_tokens",),
        tag="The model and its tokens",
        summary="How many tokens a conversation has (Anthropic)",
        body=CountTokensRequest,
        example={"model": "default", "messages": _HELLO},
        answer=CountTokensResponse,
        error=ErrorMessage,
    ),
    Operation(
        paths=("/v1/score",),
        tag="Scoring",
        summary="How likely each label token is behind query and item (SGLang)",
        body=ScoreRequest,
        example={
            "query": "Is this a river? ",
            "items": ["The Rhine.", "The Alps."],
            "label_token_ids": [0, 1],
            "apply_softmax": True,
        },
        answer=ScoreResponse,
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/v1/rerank",),
        methods=("POST", "PUT"),
        tag="Scoring",
        summary="Documents by how well they answer a query (SGLang)",
        body=RerankRequest,
        example={"query": "Which rivers are long?", "documents": ["The Nile is long.", "Alps are high."]},
        answer=list[RankedDocument],
        errors=_GENERATION_ERRORS,
    ),
    Operation(
        paths=("/v1/models",),
        methods=("GET",),
        tag="The model and its tokens",
        summary="The served model, in a list (OpenAI)",
        answer=answers.ModelList,
        errors=(),
    ),
    Operation(
        paths=("/v1/models/{model:path}",),
        methods=("GET",),
        tag="The model and its tokens",
        summary="The served model (OpenAI)",
        answer=answers.ModelCard,
        parameters=(Parameter(name="model", place="path", schema={"type": "string"}),),
        errors=(404,),
    ),
    Operation(
        paths=("/tokenize", "/v1/tokenize"),
        tag="The model and its tokens",
        summary="Text or messages to token ids",
        body=TokenizeRequest,
        example={"messages": _HELLO},
        answer=answers.TokenizeAnswer,
    ),
    Operation(
        paths=("/detokenize", "/v1/detokenize"),
        tag="The model and its tokens",
        summary="Token ids to text",
        body=DetokenizeRequest,
        example={"tokens": [504, 260]},
        answer=answers.DetokenizeAnswer,
    ),
    Operation(
        paths=("/parse_function_call",),
        tag="The model and its tokens",
        summary="The tool calls in a finished answer (SGLang)",
        body=ParseFunctionCallRequest,
        example={"text": '<tool_call>{"name": "now"}</tool_call>', "tool_call_parser": "hermes"},
        answer=ParseFunctionCallResponse,
    ),
    Operation(
        paths=("/separate_reasoning",),
        tag="The model and its tokens",
        summary="The reasoning in a finished answer (SGLang)",
        body=SeparateReasoningRequest,
        example={"text": "<think>Hm.</think>Yes.", "reasoning_parser": "qwen3"},
        answer=SeparateReasoningResponse,
    ),
    Operation(
        paths=("/",),
        methods=("GET",),
        tag="About",
        summary="What answers here",
        answer=answers.About,
        other_media_type="text/html",
        errors=(),
    ),
    Operation(
        paths=("/openapi.json",),
        methods=("GET",),
        tag="About",
        summary="This description",
        answer=dict[str, Any],
        errors=(),
    ),
    Operation(
        paths=("/docs",),
        methods=("GET",),
        tag="About",
        summary="A page to try this from",
        other_media_type="text/html",
        errors=(),
    ),
    Operation(
        paths=("/playground",),
        methods=("GET",),
        tag="About",
        summary="A page to talk to the model from",
        other_media_type="text/html",
        errors=(),
    ),
    Operation(
        paths=("/live",),
        methods=("GET",),
        tag="Health",
        summary="Whether every process lives, or only a restart helps; out of memory",
        answer=answers.HealthAnswer,
        errors=(503,),
    ),
    Operation(
        paths=("/health", "/ready", "/ping"),
        methods=("GET",),
        tag="Health",
        summary="Whether the server lives and takes requests; out of memory",
        answer=answers.HealthAnswer,
        errors=(503,),
    ),
    Operation(
        paths=("/health_generate",),
        methods=("GET",),
        tag="Health",
        summary="Whether a token comes out of it",
        answer=answers.HealthAnswer,
        errors=(503,),
    ),
    Operation(
        paths=("/model_info", "/get_model_info"),
        methods=("GET",),
        tag="About",
        summary="What is served (SGLang)",
        answer=answers.ModelDescription,
        errors=(),
    ),
    Operation(
        paths=("/server_info", "/get_server_info"),
        methods=("GET",),
        tag="About",
        summary="Every flag, and the schedulers' figures (SGLang)",
        answer=answers.ServerDescriptionAnswer,
        errors=(503,),
    ),
    Operation(
        paths=("/metrics",),
        methods=("GET",),
        tag="Health",
        summary="Everything that is counted, for Prometheus",
        other_media_type="text/plain",
        errors=(404,),
    ),
    Operation(
        paths=("/v1/loads",),
        methods=("GET",),
        tag="Health",
        summary="How busy each replica is (SGLang)",
        answer=answers.LoadsAnswer,
        other_media_type="text/plain",
        parameters=(
            Parameter(name="dp_rank", place="query", schema={"type": "integer"}),
            Parameter(
                name="include",
                place="query",
                schema={"type": "array", "items": {"enum": sorted(SECTIONS)}},
                description="Sections, joined by commas.",
            ),
            Parameter(name="format", place="query", schema={"enum": ["json", "prometheus"]}),
        ),
    ),
    Operation(
        paths=("/get_load",),
        methods=("GET",),
        tag="Health",
        summary="How busy each replica is (SGLang's gateway)",
        answer=list[answers.GatewayLoad],
        errors=(),
    ),
    Operation(
        paths=("/flush_cache",),
        methods=("GET", "POST"),
        tag="Control",
        summary="Forget cached prefixes, when nothing runs",
        answer=answers.Done,
        parameters=(
            Parameter(
                name="timeout",
                place="query",
                schema={"type": "number", "minimum": 0, "maximum": MAX_FLUSH_TIMEOUT_S},
                description="Seconds to wait for idleness.",
            ),
        ),
        errors=(400, 503),
    ),
    Operation(
        paths=("/abort_request",),
        tag="Control",
        summary="End requests by their rid, or all",
        body=AbortBody,
        example={"rid": "made-up"},
        answer=answers.Done,
    ),
)
