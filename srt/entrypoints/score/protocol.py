"""A score request and its answer, as SGLang spells them."""

from typing import Annotated, Literal

import msgspec

from srt.entrypoints.openai.request import Name
from srt.entrypoints.openai.usage import Usage
from srt.entrypoints.refused_fields import Refused
from srt.entrypoints.scheduling_fields import SchedulingFields

TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class ScoreRequest(SchedulingFields, kw_only=True):
    """POST /v1/score: how likely each label token is right behind query and item. All texts, or all token ids."""

    query: str | list[TokenId]
    items: str | list[str | list[TokenId]]
    label_token_ids: list[TokenId | list[TokenId]]
    apply_softmax: bool | None = None
    temperature: float | None = None
    item_first: bool | None = None
    return_token_logprobs: bool | None = None
    model: Name | None = None
    rid: str | None = None
    return_pooled_hidden_states: Refused = None
    score_extraction_token: Refused = None
    embed_override_token_id: Refused = None
    embed_overrides: Refused = None
    lora_path: Refused = None


class ScoreResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A row an item, a column a label, both in the order of the request."""

    object: Literal["scoring"] = "scoring"
    model: str
    scores: list[list[float]]
    token_logprobs: list[list[float]] | msgspec.UnsetType = msgspec.UNSET
    usage: Usage
