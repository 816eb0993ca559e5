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
        help="Of weights. auto: those that a GGUF file quantised are multiplied as they are where native kernels "
        "can and AMX is not used, with inputs rounded to bytes; others are of --dtype. none: all are of --dtype, which "
        "takes more memory, is slower, and nearer to float32. int8, int4: an unquantised checkpoint's matrices are "
        "quantised while it is loaded, in groups of 32 with a scale (int4: and a minimum; embedding and head in int8); "
        "needs native kernels.",
        choices=("auto", "none", "int8", "int4"),
    )
