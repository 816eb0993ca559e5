"""Measure what memory is left, and say how many tokens of KV fit in it."""

from dataclasses import dataclass

import torch

from mem_cache.sizing import kv_bytes_per_token, num_pool_slots, num_tokens_that_fit
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.util.host_memory import free_host_memory

# What --max-total-tokens may not take: a step needs memory too, and so does everybody else.
SAFETY_MARGIN_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Bytes that were free before this server loaded its weights, and after.

    Ranks that share a memory all measure before the first of them loads, and again when the last has.
    """

    at_start: int
    now: int

    def share(self, mem_fraction_static: float) -> int:
        """Bytes for KV: of what was free at the start, that fraction is for weights and KV together."""
        return int(self.now - self.at_start * (1 - mem_fraction_static))


def free_memory(device: str) -> int:
    """Bytes that could be had now."""
    return int(torch.cuda.mem_get_info()[0]) if device == "cuda" else free_host_memory()


def num_pool_tokens(
    memory: FreeMemory,
    *,
    mem_fraction_static: float,
    config: ModelConfig,
    num_kv_heads: int,
    bytes_per_value: int,
    page_size: int,
    max_total_tokens: int | None,
) -> int:
    """Tokens in whole pages that fit. Raises StartupError if not even a page does.

    `max_total_tokens` is granted if it fits into what is free, whatever the fraction's share of it.
    `num_kv_heads` are those that share the memory: all of the model's where the ranks share one.
    """
    bytes_per_token = kv_bytes_per_token(
        num_layers=config.num_layers,
        num_kv_heads=num_kv_heads,
        head_dim=config.head_dim,
        bytes_per_value=bytes_per_value,
    )
    num_bytes = memory.share(mem_fraction_static)
    if max_total_tokens is not None:
        asked = bytes_per_token * num_pool_slots(max_total_tokens, page_size)
        if asked <= memory.now - SAFETY_MARGIN_BYTES:
            num_bytes = max(num_bytes, asked)
    num_tokens = num_tokens_that_fit(
        num_bytes, bytes_per_token=bytes_per_token, page_size=page_size, at_most=max_total_tokens
    )
    if num_tokens == 0:
        least = bytes_per_token * num_pool_slots(page_size, page_size)
        raise StartupError(
            f"no memory is left for the KV cache: {memory.now / 2**20:.0f} MiB are free, "
            f"of which --mem-fraction-static {mem_fraction_static:g} gives it "
            f"{max(num_bytes, 0) / 2**20:.0f} MiB; it needs at least {least / 2**20:.1f} MiB",
            hint="raise --mem-fraction-static, ask for fewer tokens with --max-total-tokens, or free memory",
        )
    return num_tokens
