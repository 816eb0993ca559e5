"""The lines that a start leaves in the log."""

from managers.startup_summary import startup_summary
from srt.engine_client import ModelInfo

MODEL = ModelInfo(
    model_path="/models/a/very/long/path/to/a/model",
    tokenizer_path="t",
    served_model_name="tiny",
    model_type="llama",
    architecture="LlamaForCausalLM",
    context_length=2048,
    vocab_size=260,
    has_chat_template=True,
)


def test_every_decision_has_a_line_with_its_reason_behind_it() -> None:
    facts = {
        "dtype": "bfloat16",
        "dtype_reason": "the CPU multiplies it",
        "kv_cache_bytes": 3 * 2**29,
        "use_radix_cache": True,
        "max_queued_requests": None,
    }
    assert startup_summary(MODEL, facts) == [
        "  model                /models/a/very/long/path/to/a/model  LlamaForCausalLM",
        "  served as            tiny",
        "  longest request      2048 tokens  prompt and answer together",
        "  dtype                bfloat16     the CPU multiplies it",
        "  kv cache bytes       1.50 GiB",
        "  use radix cache      yes",
        "  max queued requests  none",
    ]
