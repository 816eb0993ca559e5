"""Which model, and how its checkpoint is read."""

from dataclasses import dataclass

from srt.server_args.flag import flag

MOCK = "mock"


@dataclass(frozen=True, kw_only=True)
class ModelArgs:
    """Model flags."""

    model_path: str | None = flag(
        None,
        help="Hugging Face folder or .gguf file. Default: SmolLM2-135M-Instruct, which the set-up brings along.",
        aliases=("--model",),
    )
    tokenizer_path: str | None = flag(None, help="Folder with the tokenizer. Default: the model's own.")
    load_format: str = flag(
        "auto",
        help="How weights are read. dummy: seeded random ones. mock: there is no model, and answers are made up, to "
        "measure everything else.",
        choices=("auto", "safetensors", "gguf", "dummy", MOCK),
    )
    mock_step_ms: float = flag(0.0, help="With --load-format mock, milliseconds that a step takes.")
    dtype: str = flag(
        "auto",
        help="Of weights and activations. auto: bfloat16 where the machine computes it, else float32.",
        choices=("auto", "float32", "float", "bfloat16", "float16", "half"),
    )
    context_length: int | None = flag(
        None, help="Longest prompt and answer together. Default: the checkpoint's."
    )
    chat_template: str | None = flag(
        None, help="File with a Jinja chat template. Default: the tokenizer's own."
    )
    random_seed: int = flag(0, help="Seeds the weights of --load-format dummy and --schedule-policy random.")
    device: str = flag("auto", help="Where the model runs.", choices=("auto", "cpu", "cuda"))
