"""`run()`: build one rank's scheduler, then loop until told to stop. What a scheduler process executes.

Next on the request's path: managers/scheduler/event_loop.py
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from managers.grammar_vocabulary import grammar_vocabulary
from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages import DetokenizerInput, SchedulerInput
from managers.process import report_ready
from managers.scheduler.build import SchedulerSettings, build_scheduler, resolve_max_running_requests
from managers.scheduler.control import Facts
from managers.scheduler.event_loop import Inbox, follow, lead
from managers.scheduler.grammar_gate import GrammarGate
from managers.scheduler.priorities import PriorityRules
from managers.scheduler.rank_broadcast import Alone, RankBroadcast
from managers.scheduler.replica_port import ReplicaPort
from managers.scheduler.scheduler import Outbox, Scheduler, TokenSampler
from srt.configs.model_config import ModelConfig
from srt.constrained.grammar import GrammarLoader
from srt.constrained.registry import grammar_backend
from srt.distributed.collectives import TpGroup
from srt.distributed.groups import init_tp_group
from srt.distributed.neighbours import NO_NEIGHBOURS, FolderNeighbours, Neighbours
from srt.distributed.rank import RankInfo
from srt.layers.native.load import find_kernels, kernels
from srt.layers.native.sampling import NativeChooser
from srt.model_executor.mock_model import DEFAULT_CAPACITY, MockModel
from srt.model_executor.model_runner import ModelRunner, RunnerStats
from srt.model_executor.warmup import warm_up
from srt.observability.start_parts import StartParts
from srt.runtime_plan.device_facts import find_device
from srt.runtime_plan.plan import RuntimePlan
from srt.runtime_plan.resolve import resolve
from srt.sampling.sampler import Sampler
from srt.server_args.model_args import MOCK
from srt.server_args.server_args import ServerArgs
from srt.tokenizer.load import load_tokenizer
from srt.tokenizer.tokenizer import Tokenizer
from srt.util.freed_memory import FreedMemory, keep_freed_memory

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 2.0
WARM_UP_TOKENS = 16


class NoOutbox:
    """Outbox of the ranks that talk to nobody: they compute the same messages and drop them."""

    def send(self, message: DetokenizerInput) -> None:
        """Rank 0 sends it."""


def run(
    args: ServerArgs, addresses: IpcAddresses, model_config: ModelConfig, tokenizer_folder: str, rank: int
) -> None:
    """Load, report ready, serve until a Shutdown. Raises StartupError, LockstepDivergence."""
    parts = StartParts()
    parts.end("imports")
    rank_info = RankInfo(rank, args.tp_size)
    is_mock = args.load_format == MOCK
    device = find_device("cpu" if is_mock else args.device)
    if device.kind == "cpu" and args.attention_backend != "torch_native" and not is_mock:
        device = replace(device, kernels=find_kernels())
    parts.end("kernels")
    plan = resolve(args, model_config, device, args.tp_size)
    meets_in_memory = plan.all_reduce == "shared_memory"
    group = init_tp_group(
        rank_info, addresses.rendezvous, args.dist_timeout, kernels() if meets_in_memory else None
    )
    parts.end("meeting the other ranks")
    tokenizer = load_tokenizer(Path(tokenizer_folder))
    parts.end("tokenizer")
    runner, sampler = _load_model(args, plan, model_config, tokenizer, group, addresses)
    parts.end("weights")
    capacity = runner.size_pool()
    warm_up(runner, num_tokens=min(WARM_UP_TOKENS, plan.context_length - 1))
    keep_freed_memory()
    parts.end("KV cache and warm-up")
    inbox, outbox = _ports(addresses) if rank_info.is_leader else (None, NoOutbox())
    settings = scheduler_settings(args, plan, model_config, capacity)
    facts = start_facts(args, plan, settings, runner.stats())
    scheduler = build_scheduler(
        settings,
        runner=runner,
        sampler=sampler,
        tokenizer=tokenizer,
        outbox=outbox,
        facts=facts,
        is_talking=rank_info.is_leader,
        make_loader=grammar_loader(args, model_config, tokenizer),
    )
    parts.end("scheduler and grammars")
    logger.info("start, and of that the processor's time: %s", parts)
    _serve(scheduler, group, inbox, outbox, addresses, facts)


def grammar_loader(
    args: ServerArgs, model_config: ModelConfig, tokenizer: Tokenizer
) -> Callable[[], GrammarLoader] | None:
    """Makes what reads grammars; None with --grammar-backend none. Raises StartupError.

    The back end is imported now: later, that would hold up running requests.
    """
    backend = grammar_backend(args.grammar_backend)
    if backend is None:
        return None
    return lambda: backend.loader(grammar_vocabulary(tokenizer, model_config))


def scheduler_settings(
    args: ServerArgs, plan: RuntimePlan, model_config: ModelConfig, capacity: int
) -> SchedulerSettings:
    """What was asked and decided, as far as the scheduler needs it."""
    return SchedulerSettings(
        vocab_size=model_config.vocab_size,
        eos_token_ids=model_config.eos_token_ids,
        context_length=plan.context_length,
        capacity=capacity,
        page_size=plan.page_size,
        use_radix_cache=plan.use_radix_cache,
        eviction_policy=plan.radix_eviction_policy,
        chunk_size=plan.chunked_prefill_size,
        max_running_requests=resolve_max_running_requests(plan.max_running_requests, capacity)[0],
        max_queued_requests=args.max_queued_requests,
        policy=plan.schedule_policy,
        policy_seed=args.random_seed,
        conservativeness=args.schedule_conservativeness,
        priorities=priority_rules(args),
        waiting_timeout_s=args.request_waiting_timeout,
        running_timeout_s=args.request_running_timeout,
        stream_interval=args.stream_interval,
        decode_log_interval=args.decode_log_interval,
        overlaps=plan.overlaps_schedule,
    )


def priority_rules(args: ServerArgs) -> PriorityRules:
    """What the flags say of priorities."""
    preempts = args.enable_priority_scheduling and not args.disable_priority_preemption
    return PriorityRules(
        is_enabled=args.enable_priority_scheduling,
        low_values_first=args.schedule_low_priority_values_first,
        default_priority=args.default_priority_value,
        preemption_threshold=args.priority_scheduling_preemption_threshold if preempts else None,
        refuses_when_disabled=args.abort_on_priority_when_disabled,
    )


def start_facts(
    args: ServerArgs, plan: RuntimePlan, settings: SchedulerSettings, sizes: RunnerStats
) -> Facts:
    """What was decided, for the start-up summary and /server_info; `X_reason` says why X."""
    facts: dict[str, int | float | str | bool | None] = {
        "device": plan.device,
        "dtype": plan.dtype,
        "attention_backend": plan.attention_backend,
        "layers": plan.layers,
        "quantization": plan.quantization,
        "num_threads": plan.num_threads,
        "tp_size": args.tp_size,
        "all_reduce": plan.all_reduce,
        "dp_size": args.dp_size,
        "weight_bytes": sizes.weight_bytes,
        "kv_cache_bytes": sizes.kv_bytes,
        "kv_cache_dtype": plan.kv_cache_dtype,
        "mem_fraction_static": plan.mem_fraction_static,
        "max_total_num_tokens": settings.usable_capacity,
        "context_length": plan.context_length,
        "page_size": plan.page_size,
        "use_radix_cache": plan.use_radix_cache,
        "radix_eviction_policy": plan.radix_eviction_policy,
        "chunked_prefill_size": plan.chunked_prefill_size,
        "max_running_requests": settings.max_running_requests,
        "max_queued_requests": settings.max_queued_requests,
        "schedule_policy": plan.schedule_policy,
        "overlaps_schedule": plan.overlaps_schedule,
    }
    if args.load_format == MOCK:
        facts |= {"mock_step_ms": args.mock_step_ms, "mock_step_ms_reason": "there is no model"}
    reasons = dict(plan.reasons)
    reasons["max_running_requests"] = resolve_max_running_requests(
        plan.max_running_requests, settings.capacity
    )[1]
    return facts | {f"{name}_reason": reason for name, reason in reasons.items() if name in facts}


def progress_logger(clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Logs how far loading is, at most once in `PROGRESS_INTERVAL_S`, and its end."""
    last = clock()

    def on_progress(num_loaded: int, num_weights: int) -> None:
        nonlocal last
        now = clock()
        if num_loaded == num_weights or now - last >= PROGRESS_INTERVAL_S:
            last = now
            logger.info(
                "weights: %d of %d (%.0f%%)", num_loaded, num_weights, 100 * num_loaded / max(num_weights, 1)
            )

    return on_progress


def _load_model(
    args: ServerArgs,
    plan: RuntimePlan,
    model_config: ModelConfig,
    tokenizer: Tokenizer,
    group: TpGroup,
    addresses: IpcAddresses,
) -> tuple[ModelRunner | MockModel, TokenSampler]:
    if args.load_format == MOCK:
        logger.warning("there is no model: answers are made up")
        mock = MockModel(
            tokenizer,
            vocab_size=model_config.vocab_size,
            step_s=args.mock_step_ms / 1000,
            capacity=plan.max_total_tokens or DEFAULT_CAPACITY,
        )
        return mock, mock
    runner = ModelRunner.load(
        config=model_config,
        plan=plan,
        rank=group.rank,
        group=group,
        load_format=args.load_format,
        seed=args.random_seed,
        neighbours=_neighbours(args, addresses, group.rank.rank),
        on_progress=progress_logger() if group.rank.is_leader else None,
    )
    return runner, _sampler(plan, model_config.vocab_size)


def _sampler(plan: RuntimePlan, vocab_size: int) -> Sampler:
    """Native where attention is; but where the compiler knows no vectors, torch, which brings its own, is faster."""
    if plan.attention_backend == "native" and kernels().has_vectors:
        return Sampler(vocab_size, NativeChooser(kernels()))
    return Sampler(vocab_size)


def _neighbours(args: ServerArgs, addresses: IpcAddresses, rank: int) -> Neighbours:
    if addresses.dp_rank is None:
        return NO_NEIGHBOURS
    return FolderNeighbours(
        Path(addresses.folder),
        name=f"dp{addresses.dp_rank}-tp{rank}",
        num_processes=args.dp_size * args.tp_size,
        num_replicas=args.dp_size,
    )


def _ports(addresses: IpcAddresses) -> tuple[Inbox, Outbox]:
    """What rank 0 hears and says."""
    inbox = Receiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    outbox = Sender[DetokenizerInput](addresses.detokenizer_input)
    if addresses.dp_rank is None:
        return inbox, outbox
    port = ReplicaPort(addresses.dp_rank, inbox, outbox)
    return port, port


def _serve(
    scheduler: Scheduler,
    group: TpGroup,
    inbox: Inbox | None,
    outbox: Outbox,
    addresses: IpcAddresses,
    facts: Facts,
) -> None:
    rank = group.rank
    broadcast = Alone() if rank.size == 1 else RankBroadcast(group)
    pulse = report_ready(addresses, facts if rank.is_leader else {})
    freed = FreedMemory()

    def beat() -> None:
        pulse.beat()
        freed.turn(is_idle=scheduler.is_idle)

    if inbox is not None:
        gate = GrammarGate(inbox, scheduler.is_grammar_read)
        lead(scheduler, gate, broadcast, outbox, time.monotonic, beat)
    else:
        assert isinstance(broadcast, RankBroadcast)
        follow(scheduler, broadcast, rank.rank, beat)
    group.close()
