"""Requests with a common prefix: one computes it, the others wait that moment and find it cached.

A look at each request costs one dictionary entry; prompts are compared only when they begin alike.
"""

from collections.abc import Iterable

from managers.scheduler.request import PrefixKey, Request, Sibling
from mem_cache.page_math import round_down
from mem_cache.prefix_cache import Namespace, TokenIds
from mem_cache.radix_tree import num_common

# So many tokens in common, not computed yet, are worth a step's wait.
LEAST_SHARED = 32


def prefix_key(prompt_ids: TokenIds, namespace: Namespace) -> PrefixKey | None:
    """Equal for prompts that begin alike; None for one that is too short to be waited for."""
    return (namespace, prompt_ids[:LEAST_SHARED].tobytes()) if len(prompt_ids) > LEAST_SHARED else None


class PrefixMakers:
    """Who is about to compute a prefix, one for each beginning."""

    def __init__(self, running: Iterable[Request], page_size: int) -> None:
        self._page_size = page_size
        self._makers: dict[PrefixKey, Request] = {}
        for request in running:
            self.add(request)

    def add(self, request: Request) -> None:
        """One who runs, or will in this step."""
        if request.prefix_key is not None and request.num_uncomputed > LEAST_SHARED:
            self._makers.setdefault(request.prefix_key, request)

    def is_awaited(self, request: Request) -> bool:
        """Whether `request` should wait for another's prefix; remembers whose, so that asking again is cheap."""
        if request.prefix_key is None:
            return False
        if request.sibling is None or not request.sibling.is_computing:
            request.sibling = self._find(request, request.prefix_key)
        return request.sibling is not None

    def _find(self, request: Request, key: PrefixKey) -> Sibling | None:
        maker = self._makers.get(key)
        if maker is None:
            return None
        num_shared = num_common(request.prompt_ids[: request.num_matchable], maker.prompt_ids)
        num_tokens = round_down(num_shared, self._page_size)
        return Sibling(maker, num_tokens) if num_tokens - maker.num_computed >= LEAST_SHARED else None
