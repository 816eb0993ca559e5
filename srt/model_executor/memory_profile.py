"""Measure what memory is left, and say how many tokens of KV fit in it."""

import psutil
import torch

from mem_cache.sizing import kv_bytes_per_token, num_tokens_that_fit
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.util.cgroup import memory_limit, memory_used


def kv_budget(device: str, mem_fraction_static: float) -> int:
    """Bytes for KV: what is free now, less what --mem-fraction-static leaves to everything else.

    To be asked when the weights are loaded, on a CPU those of all ranks, who share it.
    """
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
    else:
        free, total = _free_and_total_on_cpu()
    return int(free - total * (1 - mem_fraction_static))


def num_pool_tokens(
    budget: int,
    *,
    config: ModelConfig,
    num_kv_heads: int,
    bytes_per_value: int,
    page_size: int,
    max_total_tokens: int | None,
) -> int:
    """Tokens in whole pages that `budget` bytes hold. Raises StartupError if not even a page fits.

    `num_kv_heads` are those that share the budget: all of the model's where the ranks share one memory.
    """
    bytes_per_token = kv_bytes_per_token(
        num_layers=config.num_layers,
        num_kv_heads=num_kv_heads,
        head_dim=config.head_dim,
        bytes_per_value=bytes_per_value,
    )
    num_tokens = num_tokens_that_fit(
        budget, bytes_per_token=bytes_per_token, page_size=page_size, at_most=max_total_tokens
    )
    if num_tokens == 0:
        raise StartupError(
            f"no memory is left for the KV cache: its share is {budget / 2**20:.0f} MiB, and a page of "
            f"{page_size} tokens takes {bytes_per_token * page_size / 2**20:.1f} MiB beside one for padding",
            hint="raise --mem-fraction-static or free memory",
        )
    return num_tokens


def _free_and_total_on_cpu() -> tuple[int, int]:
    """Of the machine, or of the control group if that allows less."""
    machine = psutil.virtual_memory()
    limit = memory_limit()
    if limit is None or limit >= machine.total:
        return machine.available, machine.total
    return min(machine.available, limit - memory_used()), limit
