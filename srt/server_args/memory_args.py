"""How much memory the KV cache gets, and how it is cut."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class MemoryArgs:
    """Memory flags."""

    mem_fraction_static: float | None = flag(
        None,
        help="Share of the memory that is free at the start, for weights and KV cache together. "
        "Default: 0.5 on a CPU, 0.85 on a GPU.",
    )
    max_total_tokens: int | None = flag(
        None,
        help="Tokens in the KV cache, at most. Granted beyond --mem-fraction-static if that much is free.",
    )
    page_size: int = flag(1, help="Tokens in one KV page; prefixes are shared in whole pages.")
    disable_radix_cache: bool = flag(False, help="Share no prefixes between requests.")
    radix_eviction_policy: str = flag(
        "lru",
        help="Which cached prefix is given up first: used longest ago (lru), by fewest requests (lfu), by one request "
        "only (slru), by the least urgent (priority); equals by last use.",
        choices=("lru", "lfu", "slru", "priority"),
    )
