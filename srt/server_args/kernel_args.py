"""Which implementation of the model's parts is used."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class KernelArgs:
    """Kernel flags."""

    attention_backend: str = flag(
        "auto",
        help="Attention implementation: C++ that is compiled for this processor at the first start (native), or plain "
        "torch (torch_native). auto: native on a CPU if there is a compiler.",
        choices=("auto", "native", "torch_native"),
    )
    quantization: str = flag(
        "auto",
        help="Weights that a GGUF file quantised: multiplied as they are where native kernels can (auto), or rounded "
        "to --dtype first (none), which takes more memory, is slower for one request and faster for dozens.",
        choices=("auto", "none"),
    )
