"""Ask the hardware once: `DeviceFacts`."""

import os
from collections.abc import Collection
from pathlib import Path

import psutil
import torch

from srt.errors import StartupError
from srt.runtime_plan.plan import DeviceFacts
from srt.util.cgroup import cpu_limit, memory_limit

# The flags of processors that multiply bfloat16 in hardware: Intel and AMD, Arm.
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
CPUINFO = Path("/proc/cpuinfo")
TOPOLOGY = Path("/sys/devices/system/cpu")


def find_device(asked: str) -> DeviceFacts:
    """Facts of the device that --device means; "auto" prefers a GPU. Raises StartupError if it is not there."""
    has_gpu = torch.cuda.is_available()
    if asked == "cuda" and not has_gpu:
        raise StartupError("--device cuda was asked for, but torch finds no GPU here")
    return _gpu_facts() if has_gpu and asked != "cpu" else _cpu_facts()


def num_usable_cores() -> int:
    """Cores that this process may run on, within its control group's share of time."""
    cores = len(os.sched_getaffinity(0))
    limit = cpu_limit()
    return cores if limit is None else min(cores, limit)


def num_siblings(processors: Collection[int], num_usable: int, topology: Path = TOPOLOGY) -> int:
    """Of `num_usable` of these processors, how many at least are second threads of a core that counts already."""
    cores = set()
    for processor in processors:
        try:
            cores.add((topology / f"cpu{processor}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(processor))
    return max(num_usable - len(cores), 0)


def _cpu_facts() -> DeviceFacts:
    limit = memory_limit()
    installed = psutil.virtual_memory().total
    lines = _cpuinfo()
    flags = frozenset((lines.get("flags") or lines.get("Features", "")).split())
    return DeviceFacts(
        kind="cpu",
        name=lines.get("model name", "CPU"),
        num_cores=num_usable_cores(),
        num_siblings=num_siblings(os.sched_getaffinity(0), num_usable_cores()),
        total_memory=installed if limit is None else min(installed, limit),
        has_bf16=not BF16_FLAGS.isdisjoint(flags),
        has_amx="amx_bf16" in flags,
    )


def _gpu_facts() -> DeviceFacts:
    properties = torch.cuda.get_device_properties(0)
    return DeviceFacts(
        kind="cuda",
        name=properties.name,
        num_cores=num_usable_cores(),
        total_memory=properties.total_memory,
        has_bf16=properties.major >= 8,  # Ampere and later
    )


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines; empty where there is no such file."""
    try:
        text = CPUINFO.read_text()
    except OSError:
        return {}
    lines = text.split("\n\n", 1)[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}
