"""Real ModelRunners over small checkpoints, and the plans that they need."""

from pathlib import Path
from typing import Any

from srt.configs.load import load_model_config
from srt.distributed.collectives import LoneGroup, TpGroup
from srt.model_executor.model_runner import ModelRunner
from srt.runtime_plan.plan import RuntimePlan


def make_plan(**settings: Any) -> RuntimePlan:
    """A plan for one thread, float32 and a small pool; `settings` over that."""
    defaults: dict[str, Any] = {
        "device": "cpu",
        "dtype": "float32",
        "kv_cache_dtype": settings.get("dtype", "float32"),
        "attention_backend": "torch_native",
        "layers": "torch",
        "quantization": "none",
        "num_threads": 1,
        "all_reduce": "none",
        "context_length": 256,
        "page_size": 1,
        "chunked_prefill_size": 64,
        "mem_fraction_static": 0.95,
        "max_total_tokens": 1024,
        "max_running_requests": None,
        "schedule_policy": "fcfs",
        "use_radix_cache": True,
        "radix_eviction_policy": "lru",
        "overlaps_schedule": False,
        "reasons": {},
    }
    return RuntimePlan(**{**defaults, **settings})


def load_runner(
    checkpoint: Path,
    *,
    group: TpGroup | None = None,
    load_format: str = "auto",
    seed: int = 0,
    **settings: Any,
) -> ModelRunner:
    """A runner that is ready to run."""
    group = group or LoneGroup()
    runner = ModelRunner.load(
        config=load_model_config(checkpoint),
        plan=make_plan(**settings),
        rank=group.rank,
        group=group,
        load_format=load_format,
        seed=seed,
    )
    runner.size_pool()
    return runner
