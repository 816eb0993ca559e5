"""What the small endpoints answer, as types: for the description only. They build their answers as plain dicts."""

from typing import Any, Literal

import msgspec


class ErrorFields(msgspec.Struct, kw_only=True):
    """What went wrong. `param` names the field, with its place."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(msgspec.Struct, kw_only=True):
    """Every error, everywhere but under /v1/messages."""

    error: ErrorFields


class About(msgspec.Struct, kw_only=True):
    """What answers here."""

    server: str
    version: str
    model: str
    links: dict[str, str]


class ModelCard(msgspec.Struct, kw_only=True):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    max_model_len: int


class ModelList(msgspec.Struct, kw_only=True):
    """All of them: one."""

    object: Literal["list"]
    data: list[ModelCard]


class TokenizeAnswer(msgspec.Struct, kw_only=True):
    """Ids and their number; lists of both for a list of prompts."""

    tokens: list[int | list[int]]
    count: int | list[int]
    max_model_len: int


class DetokenizeAnswer(msgspec.Struct, kw_only=True):
    """The text; a list for lists."""

    text: str | list[str]


class HealthAnswer(msgspec.Struct, kw_only=True):
    """Alive. `detail` says which part is not, when the status is degraded."""

    status: Literal["ok", "degraded"]
    detail: str | msgspec.UnsetType = msgspec.UNSET


class ModelDescription(msgspec.Struct, kw_only=True):
    """What is served."""

    model_path: str
    served_model_name: str
    tokenizer_path: str
    is_generation: bool
    default_sampling_params: dict[str, float]
    model_type: str
    architectures: list[str]
    context_length: int
    vocab_size: int
    has_chat_template: bool


class ServerDescriptionAnswer(msgspec.Struct, kw_only=True):
    """Every flag by its name, and these."""

    model_path: str
    tokenizer_path: str
    served_model_name: str
    internal_states: list[dict[str, Any]]
    version: str


class ReplicaLoad(msgspec.Struct, kw_only=True):
    """How busy one replica is."""

    timestamp: float
    dp_rank: int
    is_alive: bool
    num_running_reqs: int
    num_waiting_reqs: int
    num_waiting_uncached_tokens: int
    num_used_tokens: int
    num_total_tokens: int
    num_active_tokens: int
    num_cached_tokens: int
    max_total_num_tokens: int
    max_running_requests: int
    token_usage: float
    utilization: float
    gen_throughput: float
    cache_hit_rate: float


class LoadsAnswer(msgspec.Struct, kw_only=True):
    """Of all replicas, or of the one that was asked for."""

    timestamp: float
    version: str
    loads: list[ReplicaLoad]


class GatewayLoad(msgspec.Struct, kw_only=True):
    """A replica's load as SGLang's gateway reads it."""

    dp_rank: int
    num_reqs: int
    num_waiting_reqs: int
    num_tokens: int


class Done(msgspec.Struct, kw_only=True):
    """It has happened."""

    success: bool
    message: str | msgspec.UnsetType = msgspec.UNSET


class NativeAnswer(msgspec.Struct, kw_only=True):
    """One answer of /generate. `meta_info` says why it ended, and counts tokens."""

    text: str
    output_ids: list[int]
    meta_info: dict[str, Any]
