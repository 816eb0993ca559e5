"""Which implementation of the model's parts is used."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class KernelArgs:
    """Kernel flags."""

    attention_backend: str = flag("auto", help="Attention implementation.", choices=("auto", "torch_native"))
