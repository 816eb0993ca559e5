"""What chat and completions have in common on the wire: which model, how to sample, how to stream.

Null means absent everywhere. Names that neither OpenAI nor SGLang knows are ignored, as both SGLang and vLLM do, so
that clients may send more than we know; names that they know and we do not serve are refused by name.
"""

from typing import Annotated

import msgspec

from srt.entrypoints.refused_fields import Refused
from srt.entrypoints.sampling_fields import SamplingFields
from srt.entrypoints.scheduling_fields import Priority, TimeoutS

# It comes back in every event of a stream.
Name = Annotated[str, msgspec.Meta(max_length=512)]


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream tells beside the text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(SamplingFields, kw_only=True):
    """The fields of both APIs, strictly typed."""

    model: Name | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    min_tokens: int | None = None
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: Priority | None = None
    timeout_s: TimeoutS | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None

    # Structured output
    response_format: Refused = None
    regex: Refused = None
    ebnf: Refused = None
    json_schema: Refused = None
    structural_tag: Refused = None
    # What comes back beside the text
    top_logprobs: Refused = None
    prompt_logprobs: Refused = None
    return_hidden_states: Refused = None
    return_routed_experts: Refused = None
    return_sampling_mask: Refused = None
    return_flat_raw_output_top_logprobs: Refused = None
    return_prompt_token_ids: Refused = None
    return_token_ids: Refused = None
    return_meta_info: Refused = None
    return_cached_tokens_details: Refused = None
    return_spec_tokens_details: Refused = None
    return_input_ids_in_sglext: Refused = None
    return_output_ids_in_sglext: Refused = None
    # How tokens are chosen
    stop_regex: Refused = None
    beam_width: Refused = None
    use_beam_search: Refused = None
    custom_logit_processor: Refused = None
    custom_params: Refused = None
    logits_processors: Refused = None
    allowed_token_ids: Refused = None
    bad_words: Refused = None
    watermark: Refused = None
    truncate_prompt_tokens: Refused = None
    # Which weights, where, when
    lora_path: Refused = None
    session_id: Refused = None
    session_params: Refused = None
    bootstrap_host: Refused = None
    bootstrap_port: Refused = None
    bootstrap_room: Refused = None

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
