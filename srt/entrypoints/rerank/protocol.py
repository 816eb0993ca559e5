"""A rerank request and its answer, as SGLang spells them."""

from typing import Annotated

import msgspec

from srt.entrypoints.openai.request import Name
from srt.entrypoints.refused_fields import Refused
from srt.entrypoints.scheduling_fields import SchedulingFields


class RerankRequest(SchedulingFields, kw_only=True):
    """POST /v1/rerank: the documents, by how well each answers the query."""

    query: str
    documents: list[str]
    instruct: str | None = None
    top_n: Annotated[int, msgspec.Meta(ge=1)] | None = None
    return_documents: bool | None = None
    model: Name | None = None
    rid: str | None = None
    max_tokens_per_doc: Refused = None
    truncate_prompt_tokens: Refused = None
    lora_path: Refused = None


class RerankMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What a document's place cost."""

    id: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class RankedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One document. `index` is its place in the request; `score` is 0 to 1."""

    score: float
    index: int
    document: str | msgspec.UnsetType = msgspec.UNSET
    meta_info: RerankMeta
