"""Requests and memory as they are in the middle of their lives, for tests of one decision."""

import numpy as np

from managers.scheduler.decision_digest import DecisionDigest
from managers.scheduler.finish import FinishRules
from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory
from mem_cache.build import build_kv_memory
from tests.managers.scheduler.world import greedy


def request(arrival: int, prompt_len: int = 10, max_new_tokens: int = 0, **state: object) -> Request:
    sampling = greedy(max_new_tokens)
    made = Request(
        id=arrival,
        arrival=arrival,
        prompt_ids=np.arange(arrival * 1000, arrival * 1000 + prompt_len, dtype=np.int32),
        sampling=sampling,
        rules=FinishRules.of(sampling, max_new_tokens, (0,), vocab_size=100_000),
        stream=False,
    )
    for name, value in state.items():
        setattr(made, name, value)
    return made


def memory(capacity: int = 100, page_size: int = 1) -> RequestMemory:
    def build():  # type: ignore[no-untyped-def]
        return build_kv_memory(
            capacity=capacity, page_size=page_size, use_radix_cache=True, num_rows=20, context_length=1000
        )

    return RequestMemory(build, DecisionDigest())
