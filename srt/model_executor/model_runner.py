"""One rank's model: load it, size its KV memory, run a ForwardBatch.

Batches come from the host and what they predict goes back there; where the model runs is this file's business.

Next on the request's path: srt/models/llama.py
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from mem_cache.kv_pool import KVPool
from mem_cache.pages_ahead import PagesAhead
from mem_cache.sizing import num_pool_slots
from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.neighbours import NO_NEIGHBOURS, Neighbours
from srt.distributed.rank import RankInfo
from srt.errors import StartupError
from srt.forward_batch import ForwardBatch, Prediction
from srt.layers.attention.backend import AttentionBackend
from srt.layers.attention.registry import make_attention_backend
from srt.layers.native.load import kernels
from srt.model_executor.memory_profile import FreeMemory, free_memory, num_pool_tokens
from srt.model_loader.load import load_weights
from srt.models.decoder import kv_head_span
from srt.models.registry import CausalModel, find_model
from srt.runtime_plan.plan import RuntimePlan

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class RunnerStats:
    """What the model takes on this rank. `num_tokens` is the KV pool's capacity, 0 before it is sized."""

    weight_bytes: int
    kv_bytes: int
    num_tokens: int


class ModelRunner:
    """Implements `srt.forward_batch.Runner`. Made by `load`; runs once `size_pool` has been called."""

    def __init__(
        self,
        *,
        model: CausalModel,
        config: ModelConfig,
        plan: RuntimePlan,
        group: TpGroup,
        neighbours: Neighbours,
        free_at_start: int,
    ) -> None:
        self.vocab_size = config.vocab_size
        self._model = model
        self._config = config
        self._plan = plan
        self._group = group
        self._neighbours = neighbours
        self._free_at_start = free_at_start
        self._num_tokens = 0
        self._pool: KVPool | None = None
        self._pages: PagesAhead | None = None
        self._attention: AttentionBackend | None = None

    @classmethod
    def load(
        cls,
        *,
        config: ModelConfig,
        plan: RuntimePlan,
        rank: RankInfo,
        group: TpGroup,
        load_format: str,
        seed: int,
        neighbours: Neighbours = NO_NEIGHBOURS,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> "ModelRunner":
        """Read this rank's weights. `on_progress` gets (weights loaded, weights in all). Raises StartupError.

        Sets the number of this process's compute threads: torch's own while weights are read. Beside native layers it
        computes alone from then on: what is left to it is little, and its threads, looking for more, would keep cores
        from the kernels' (an eighth of a small model's step).
        """
        if rank.size > config.num_kv_heads:
            raise StartupError(
                f"{rank.size} ranks cannot share {config.num_kv_heads} key-value heads; "
                f"the largest usable size is {config.num_kv_heads}"
            )
        assert group.rank == rank, f"the group knows us as {group.rank}, not {rank}"
        torch.set_num_threads(plan.num_threads)
        model_class = find_model(config)
        free_at_start = group.all_reduce_min(free_memory(plan.device))  # nobody loads before all have looked
        neighbours.meet("before-weights")
        with torch.inference_mode():
            weights = load_weights(
                model_class.slices(config, rank),
                config=config,
                load_format=load_format,
                seed=seed,
                dtype=DTYPES[plan.dtype],
                device=plan.device,
                quantization=plan.quantization,
                on_progress=on_progress,
            )
            model = model_class(config, weights, group, kernels() if plan.layers == "native" else None)
        if plan.attention_backend == "native":
            kernels().num_threads = plan.num_threads
        if plan.layers == "native":
            torch.set_num_threads(1)
        assert not weights, f"the model left {list(weights)} unused"
        return cls(
            model=model,
            config=config,
            plan=plan,
            group=group,
            neighbours=neighbours,
            free_at_start=free_at_start,
        )

    def size_pool(self) -> int:
        """Allocate the KV pool once the weights are loaded; its capacity in tokens, the same on every rank.

        Every rank must call it: they wait for each other. Raises StartupError if there is no room.
        """
        assert self._pool is None, "the KV pool is sized once"
        plan, config = self._plan, self._config
        num_kv_heads = kv_head_span(config, self._group.rank).length
        shares_memory = plan.device == "cpu"
        dtype = DTYPES[plan.kv_cache_dtype]
        self._group.all_reduce_min(0)  # from here on, every rank holds its weights
        self._neighbours.meet("after-weights")
        free_now = self._group.all_reduce_min(free_memory(plan.device))
        num_replicas = self._neighbours.num_replicas
        num_tokens = num_pool_tokens(
            FreeMemory(self._free_at_start // num_replicas, free_now // num_replicas),
            mem_fraction_static=plan.mem_fraction_static,
            config=config,
            num_kv_heads=config.num_kv_heads if shares_memory else num_kv_heads,
            bytes_per_value=dtype.itemsize,
            page_size=plan.page_size,
            max_total_tokens=plan.max_total_tokens,
        )
        self._num_tokens = self._group.all_reduce_min(num_tokens)
        self._pool = KVPool(
            num_layers=config.num_layers,
            num_slots=num_pool_slots(self._num_tokens, plan.page_size),
            num_kv_heads=num_kv_heads,
            head_dim=config.head_dim,
            dtype=dtype,
            device=plan.device,
        )
        if plan.device == "cpu":
            self._pages = PagesAhead(self._pool)
        self._attention = make_attention_backend(plan.attention_backend, self._pool)
        logger.info("KV cache: %d tokens, %.2f GiB", self._num_tokens, self._pool.num_bytes / 2**30)
        return self._num_tokens

    def forward(self, batch: ForwardBatch) -> Prediction:
        """Write the new tokens' KV to their slots; say what comes next, on the host.

        The same bits on every rank. The tensors are the caller's, to change in inference mode.
        """
        assert self._attention is not None, "size_pool comes before forward"
        with torch.inference_mode():
            if self._pages is not None:
                self._pages.reach(int(batch.out_slots.max()))
            on_device = _move(batch, self._plan.device)
            logits, likeliest = self._model(on_device, self._attention.prepare(on_device))
            return Prediction(logits.to("cpu"), likeliest.to("cpu"))

    def stats(self) -> RunnerStats:
        """Sizes now."""
        kv_bytes = 0 if self._pool is None else self._pool.num_bytes
        return RunnerStats(self._model.num_bytes, kv_bytes, self._num_tokens)


def _move(batch: ForwardBatch, device: str) -> ForwardBatch:
    """The batch with its tensors on `device`."""
    if device == "cpu":
        return batch
    return replace(
        batch,
        input_ids=batch.input_ids.to(device),
        positions=batch.positions.to(device),
        out_slots=batch.out_slots.to(device),
        row_starts=batch.row_starts.to(device),
        seq_lens=batch.seq_lens.to(device),
        slot_table=batch.slot_table.to(device),
        logit_rows=batch.logit_rows.to(device),
        greedy_rows=batch.greedy_rows.to(device),
    )
