"""What chat and completions have in common on the wire: which model, how to sample, what form, how to stream.

Null means absent everywhere. Names that neither OpenAI nor SGLang nor vLLM knows are ignored, as they do, so that
clients may send more than we know; names that they know and we do not serve are refused by name.
"""

from typing import Annotated, Any

import msgspec

import srt
from srt.entrypoints.openai.form_fields import FormFields
from srt.entrypoints.refused_fields import Hint, Refused
from srt.entrypoints.scheduling_fields import Priority, TimeoutS
from srt.errors import InvalidRequest

# It comes back in every event of a stream.
Name = Annotated[str, msgspec.Meta(max_length=512)]

# What a seed's answer may depend on, as far as one word can say it.
SYSTEM_FINGERPRINT = f"lockstep-{srt.__version__}"

# More values of fields that are not served, by which a client asks for what it gets anyway.
HARMLESS: dict[str, Any] = {
    "length_penalty": 1.0,
    "spaces_between_special_tokens": True,
    "guided_decoding_backend": "xgrammar",
}


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream tells beside the text. Nothing is padded here, so there is no obfuscation to switch off."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: Hint = None


class GenerationFields(FormFields, kw_only=True):
    """The fields of both APIs, strictly typed."""

    model: Name | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    min_tokens: int | None = None
    include_stop_str_in_output: bool | None = None  # vLLM's name of no_stop_trim
    return_token_ids: bool | None = None
    return_prompt_token_ids: bool | None = None
    rid: str | None = None
    request_id: str | None = None  # vLLM's name of rid
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: Priority | None = None
    timeout_s: TimeoutS | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None

    # Who asks, what for, and where the same prompt was seen: OpenAI's, for its own books.
    user: Hint = None
    safety_identifier: Hint = None
    prompt_cache_key: Hint = None
    prompt_cache_retention: Hint = None
    prompt_cache_options: Hint = None
    metadata: Hint = None
    store: Hint = None
    service_tier: Hint = None
    routing_key: Hint = None  # SGLang's, for a gateway
    conversation_id: Hint = None
    # What comes back beside the text
    prompt_logprobs: Refused = None
    return_tokens_as_token_ids: Refused = None
    return_hidden_states: Refused = None
    return_routed_experts: Refused = None
    routed_experts_start_len: Refused = None
    return_sampling_mask: Refused = None
    return_flat_raw_output_top_logprobs: Refused = None
    return_meta_info: Refused = None
    return_cached_tokens_details: Refused = None
    return_spec_tokens_details: Refused = None
    return_input_ids_in_sglext: Refused = None
    return_output_ids_in_sglext: Refused = None
    # How tokens are chosen
    stop_regex: Refused = None
    beam_width: Refused = None
    use_beam_search: Refused = None
    length_penalty: Refused = None
    early_stopping: Refused = None
    custom_logit_processor: Refused = None
    custom_params: Refused = None
    logits_processors: Refused = None
    allowed_token_ids: Refused = None
    bad_words: Refused = None
    watermark: Refused = None
    truncate_prompt_tokens: Refused = None
    spaces_between_special_tokens: Refused = None
    # Which weights, where, when
    lora_path: Refused = None
    session_id: Refused = None
    session_params: Refused = None
    bootstrap_host: Refused = None
    bootstrap_port: Refused = None
    bootstrap_room: Refused = None
    bootstrap_pair_key: Refused = None
    decode_tp_size: Refused = None
    disagg_prefill_dp_rank: Refused = None
    kv_transfer_params: Refused = None
    kv_hints: Refused = None
    vllm_xargs: Refused = None

    @property
    def includes_usage(self) -> bool:
        """Whether the stream ends with an event that counts tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def has_continuous_usage(self) -> bool:
        """Whether every event counts tokens."""
        return self.includes_usage and bool(
            self.stream_options is not None and self.stream_options.continuous_usage_stats
        )

    @property
    def wants_prompt_ids(self) -> bool:
        """vLLM's one field asks for both, SGLang has two."""
        return bool(self.return_prompt_token_ids or self.return_token_ids)

    def check_whole_only(self) -> None:
        """Raise InvalidRequest if a stream is to tell what only whole answers tell."""
        for field in ("return_token_ids", "return_prompt_token_ids"):
            if self.stream and getattr(self, field):
                raise InvalidRequest(f"{field} is not served in a stream", param=field)

    def sampling_overrides(self) -> dict[str, Any]:
        """Sampling settings that fields of other names ask for."""
        return {"no_stop_trim": True} if self.include_stop_str_in_output else {}
