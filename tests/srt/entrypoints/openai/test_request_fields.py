"""No documented field is ignored in silence: each is a member of the request, to be honoured, refused, or a hint."""

import inspect

import msgspec
import pytest
from openai.types import completion_create_params as completion_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import FunctionToolParam, response_create_params

from srt.entrypoints.openai.chat.protocol import ChatRequest
from srt.entrypoints.openai.completions.protocol import CompletionRequest
from srt.entrypoints.openai.responses.protocol import FunctionTool, ResponsesRequest


def words(text: str) -> set[str]:
    return set(text.split())


OPENAI_CHAT = (
    inspect.get_annotations(chat_params.CompletionCreateParamsBase).keys()
    | inspect.get_annotations(chat_params.CompletionCreateParamsStreaming).keys()
)
OPENAI_COMPLETIONS = (
    inspect.get_annotations(completion_params.CompletionCreateParamsBase).keys()
    | inspect.get_annotations(completion_params.CompletionCreateParamsStreaming).keys()
)
OPENAI_RESPONSES = (
    inspect.get_annotations(response_create_params.ResponseCreateParamsBase).keys()
    | inspect.get_annotations(response_create_params.ResponseCreateParamsStreaming).keys()
)
OPENAI_FUNCTION = inspect.get_annotations(FunctionToolParam).keys()
SGLANG = words(
    "top_k min_p repetition_penalty min_tokens regex ebnf stop_token_ids stop_regex no_stop_trim ignore_eos "
    "skip_special_tokens lora_path session_id session_params custom_logit_processor custom_params watermark rid "
    "extra_key cache_salt priority return_hidden_states return_routed_experts return_cached_tokens_details "
    "return_spec_tokens_details return_token_ids response_format routed_dp_rank data_parallel_rank routing_key "
    "conversation_id bootstrap_host bootstrap_port bootstrap_room bootstrap_pair_key decode_tp_size "
    "disagg_prefill_dp_rank routed_experts_start_len"
)
SGLANG_CHAT = words(
    "reasoning thinking continue_final_message separate_reasoning stream_reasoning chat_template_kwargs input_ids "
    "return_prompt_token_ids return_meta_info return_input_ids_in_sglext return_output_ids_in_sglext "
    "return_sampling_mask return_flat_raw_output_top_logprobs task chat_template max_dynamic_patch "
    "min_dynamic_patch use_audio_in_video mm_processor_kwargs"
)
VLLM = words(
    "use_beam_search length_penalty include_stop_str_in_output ignore_eos min_tokens spaces_between_special_tokens "
    "truncate_prompt_tokens prompt_logprobs allowed_token_ids bad_words add_special_tokens structured_outputs "
    "guided_json guided_regex guided_choice guided_grammar priority request_id logits_processors "
    "return_tokens_as_token_ids return_token_ids cache_salt kv_transfer_params vllm_xargs"
)
VLLM_CHAT = words(
    "echo add_generation_prompt continue_final_message documents include_reasoning media_io_kwargs"
)


@pytest.mark.parametrize(
    ("documented", "request_type"),
    [
        pytest.param(OPENAI_CHAT, ChatRequest, id="openai-chat"),
        pytest.param(OPENAI_COMPLETIONS, CompletionRequest, id="openai-completions"),
        pytest.param(OPENAI_RESPONSES, ResponsesRequest, id="openai-responses"),
        pytest.param(OPENAI_FUNCTION, FunctionTool, id="openai-function"),
        pytest.param(SGLANG, ChatRequest, id="sglang-chat"),
        pytest.param(SGLANG_CHAT, ChatRequest, id="sglang-chat-only"),
        pytest.param(SGLANG | {"json_schema"}, CompletionRequest, id="sglang-completions"),
        pytest.param(VLLM | VLLM_CHAT, ChatRequest, id="vllm-chat"),
        pytest.param(VLLM, CompletionRequest, id="vllm-completions"),
    ],
)
def test_every_documented_field_is_known(documented: set[str], request_type: type[msgspec.Struct]) -> None:
    assert documented - set(request_type.__struct_encode_fields__) == set()
