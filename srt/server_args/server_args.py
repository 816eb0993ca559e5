"""`ServerArgs`: what the user asked, and nothing else. Frozen; decisions are made in srt/runtime_plan/."""

from dataclasses import dataclass

from srt.server_args.decoding_args import DecodingArgs
from srt.server_args.http_args import HttpArgs
from srt.server_args.kernel_args import KernelArgs
from srt.server_args.memory_args import MemoryArgs
from srt.server_args.model_args import ModelArgs
from srt.server_args.observability_args import ObservabilityArgs
from srt.server_args.parallel_args import ParallelArgs
from srt.server_args.schedule_args import ScheduleArgs


@dataclass(frozen=True, kw_only=True)
class ServerArgs(
    ModelArgs,
    HttpArgs,
    ScheduleArgs,
    MemoryArgs,
    ParallelArgs,
    KernelArgs,
    DecodingArgs,
    ObservabilityArgs,
):
    """All flag groups in one value; every field is a flag of the same name."""
