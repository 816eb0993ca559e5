"""`RuntimePlan` and `DeviceFacts`: what this rank will do, and on what. Frozen.

Code below never sees the plan: it gets the values it needs as arguments.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Whether the native kernels can be used, and one clause that says why, or why not."""

    are_there: bool
    reason: str
    multiply_bfloat16: bool = False  # in hardware
    know_amx: bool = False
    use_amx: bool = False  # as they do where they know it, unless the system or the operator forbids it


NO_KERNELS = KernelFacts(are_there=False, reason="nobody has looked for native kernels")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The machine, asked once. Memory in bytes."""

    kind: str  # "cpu" or "cuda"
    name: str
    num_cores: int  # that this process may use
    total_memory: int
    has_bf16: bool
    num_siblings: int = 0  # of them, those that are second threads of another one
    has_amx: bool = False  # multiplies whole tiles of bfloat16
    kernels: KernelFacts = NO_KERNELS


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlan:
    """Every decision, made. `reasons` maps a decision's name to one readable clause, for the start-up summary."""

    device: str
    dtype: str
    kv_cache_dtype: str
    attention_backend: str
    layers: str  # "native": a pass through all of them is one call; "torch": one operation after another
    quantization: (
        str  # of weights: "stored" as the checkpoint has them, "int8" or "int4" when loaded, "none" left
    )
    num_threads: int  # of this rank's compute
    all_reduce: str  # how ranks add up: "shared_memory", "gloo", or "none", for a rank alone
    context_length: int
    page_size: int
    chunked_prefill_size: int  # most new tokens a step; the context length when chunking is off
    mem_fraction_static: float
    max_total_tokens: int | None  # the user's cap; the pool is sized after the weights are loaded
    max_running_requests: int | None  # the user's; resolved against the pool's size later
    schedule_policy: str
    use_radix_cache: bool
    radix_eviction_policy: str
    overlaps_schedule: bool
    reasons: dict[str, str]
