"""What a trace says of an HTTP request, in the words of OpenTelemetry's conventions for generative models.

Nothing is done while a request runs but to remember what it is; when it is over, `RequestTracer` puts it into words,
once. A request that asked the model for something is told of, and any other whose client has a trace. Never told:
prompts, answers, stop strings, queries.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from starlette.types import Scope

from srt.engine_client import GenerateRequest, Generation
from srt.entrypoints.engine_layer import EngineLayer
from srt.entrypoints.middleware import failure_of, request_label, response_status
from srt.observability.request_timing import RequestTiming, Visit, current_visit
from srt.observability.request_trace import Attribute, EndedRequest, TraceSink

CHAT, TEXT = "chat", "text_completion"
# Of every path whose handler asks the model; what is not here is a text completion, too.
OPERATIONS = {"/v1/chat/completions": CHAT, "/v1/messages": CHAT, "/v1/responses": CHAT}
# W3C's two headers; a longer state than anybody is bound to pass on is not kept.
PARENT_HEADERS = {b"traceparent": 64, b"tracestate": 1024}


@dataclass(slots=True)
class Work:
    """What one visit asks of the engine, and, once dispatched, what came of it."""

    request: GenerateRequest
    generation: Generation | None = None

    def describe(self, timing: RequestTiming | None) -> Iterator[tuple[str, Attribute]]:
        """Figures and settings."""
        sampling = self.request.sampling[0]
        yield "gen_ai.request.stream", self.request.stream
        yield "gen_ai.request.temperature", sampling.temperature
        yield "gen_ai.request.top_p", sampling.top_p
        yield "gen_ai.request.frequency_penalty", sampling.frequency_penalty
        yield "gen_ai.request.presence_penalty", sampling.presence_penalty
        if sampling.top_k > 0:
            yield "gen_ai.request.top_k", sampling.top_k
        if sampling.max_new_tokens is not None:
            yield "gen_ai.request.max_tokens", sampling.max_new_tokens
        if sampling.seed is not None:
            yield "gen_ai.request.seed", sampling.seed
        if sampling.n != 1:
            yield "gen_ai.request.choice.count", sampling.n
        if self.generation is None:
            return
        outcomes = self.generation.outcomes()
        yield "gen_ai.response.id", self.generation.request_id
        yield (
            "gen_ai.response.finish_reasons",
            ["abort" if outcome.finish is None else outcome.finish.type for outcome in outcomes],
        )
        yield "gen_ai.usage.input_tokens", sum(map(len, self.generation.prompt_token_ids))
        yield "gen_ai.usage.output_tokens", sum(outcome.completion_tokens for outcome in outcomes)
        # Of each prompt, what its first answer found.
        cached_tokens = sum(outcome.cached_tokens for outcome in outcomes[:: sampling.n])
        yield "gen_ai.usage.cache_read.input_tokens", cached_tokens
        yield "lockstep.num_retractions", sum(outcome.num_retractions for outcome in outcomes)
        if timing is not None and timing.time_to_first_token_s is not None:
            yield "gen_ai.response.time_to_first_chunk", timing.time_to_first_token_s


class TracedEngine(EngineLayer):
    """Remembers what each visit asks. Costs a request one attribute, a token nothing."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """Pass it on. Of a visit that asks for several things, the first is told of; of health checks, none."""
        visit = current_visit()
        if visit is None or visit.work is not None or request.is_probe:
            return await self._engine.generate(request)
        visit.work = work = Work(request)
        work.generation = await self._engine.generate(request)
        return work.generation


class RequestTracer:
    """Puts requests that are over into words."""

    def __init__(self, sink: TraceSink, model_name: str) -> None:
        self._sink = sink
        self._model_name = model_name

    def note_end(self, scope: Scope, visit: Visit, ended: float) -> None:
        """A visit is over."""
        parent = _parent(scope)
        if visit.work is None and not parent:
            return
        attributes: dict[str, Attribute] = dict(self._describe(scope, visit))
        error = failure_of(scope)
        failure = error.error_type if error is not None and error.status >= 500 else None
        if failure is not None:
            attributes["error.type"] = failure
        self._sink.put(
            EndedRequest(
                name=f"{_operation(scope)} {self._model_name}" if visit.work else scope["method"],
                received=visit.received,
                ended=ended,
                segments={} if visit.timing is None else visit.timing.segments(),
                attributes=attributes,
                parent=parent,
                # Its words may quote what the client wrote; its kind does not.
                failure=failure,
            )
        )

    def _describe(self, scope: Scope, visit: Visit) -> Iterator[tuple[str, Attribute]]:
        yield "http.request.method", scope["method"]
        yield "url.path", scope["path"]
        yield "url.scheme", scope.get("scheme", "http")
        yield "http.request.header.x-request-id", [request_label(scope)]
        status = response_status(scope)
        if status is not None:  # else the client has left before there was one
            yield "http.response.status_code", status
        if visit.work is not None:
            yield "gen_ai.operation.name", _operation(scope)
            yield "gen_ai.provider.name", "lockstep"
            yield "gen_ai.request.model", self._model_name
            yield "gen_ai.response.model", self._model_name
            yield from visit.work.describe(visit.timing)


def _operation(scope: Scope) -> str:
    return OPERATIONS.get(scope["path"], TEXT)


def _parent(scope: Scope) -> Mapping[str, str]:
    return {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if len(value) <= PARENT_HEADERS.get(name, -1)
    }
