"""A request to /generate, as SGLang spells it."""

from typing import Any

import msgspec

from srt.entrypoints.refused_fields import Refused
from srt.entrypoints.sampling_fields import SamplingFields
from srt.entrypoints.scheduling_fields import SchedulingFields


class NativeSamplingParams(SamplingFields, kw_only=True, forbid_unknown_fields=True):
    """Sampling settings. An unknown name is an error, so that a misspelt one is noticed."""

    max_new_tokens: int | msgspec.UnsetType | None = msgspec.UNSET  # null is "up to the context limit"
    min_new_tokens: int | None = None
    spaces_between_special_tokens: bool | None = None
    json_schema: str | dict[str, Any] | None = None  # at most one of these four; "" is none
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | dict[str, Any] | None = None
    stop_regex: Refused = None
    beam_width: Refused = None
    custom_params: Refused = None
    stream_interval: int | None = None
    watermark: Refused = None


class NativeRequest(SchedulingFields, kw_only=True):
    """POST /generate. A list of texts or of id lists is a batch, answered as a list in the same order."""

    text: str | list[str] | None = None
    input_ids: list[int | list[int]] | None = None
    sampling_params: NativeSamplingParams | list[NativeSamplingParams] | None = None
    stream: bool | None = None
    rid: str | list[str] | None = None
    return_logprob: bool | list[bool | None] | None = None
    logprob_start_len: int | list[int | None] | None = None  # -1: of the answer only
    top_logprobs_num: int | list[int | None] | None = None
    token_ids_logprob: list[int | list[int] | None] | None = None
    return_text_in_logprobs: bool | None = None
    return_prompt_token_ids: bool | None = None
    input_embeds: Refused = None
    image_data: Refused = None
    video_data: Refused = None
    audio_data: Refused = None
    return_flat_raw_top_logprobs: Refused = None
    return_flat_raw_output_top_logprobs: Refused = None
    return_flat_raw_top_logprobs_b64: Refused = None
    return_sampling_mask: Refused = None
    return_hidden_states: Refused = None
    return_routed_experts: Refused = None
    return_indexer_topk: Refused = None
    return_bytes: Refused = None
    return_entropy: Refused = None
    modalities: Refused = None
    session_id: Refused = None
    session_params: Refused = None
    lora_path: Refused = None
    custom_logit_processor: Refused = None
    bootstrap_host: Refused = None
    bootstrap_port: Refused = None
    bootstrap_room: Refused = None
    bootstrap_pair_key: Refused = None
    background: Refused = None
    require_reasoning: Refused = None
    max_thinking_tokens: Refused = None
    watermark: Refused = None
