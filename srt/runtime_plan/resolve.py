"""ServerArgs, ModelConfig and DeviceFacts to a RuntimePlan: one pure function a decision, and nothing else decides.

Each function gives its decision and one clause that says why, for the start-up summary. Raises StartupError for
what cannot be had. Loads no torch.
"""

from srt.configs.model_config import ModelConfig
from srt.distributed.rank import MAX_RANKS_IN_MEMORY
from srt.errors import StartupError
from srt.runtime_plan.plan import DeviceFacts, RuntimePlan
from srt.server_args.server_args import ServerArgs

DTYPE_NAMES = {"float": "float32", "half": "float16"}
LOAD_BALANCE_SPELLINGS = {"total_requests": "least_requests", "total_tokens": "least_tokens"}
DEFAULT_CHUNK = {"cpu": 512, "cuda": 8192}
DEFAULT_MEM_FRACTION = {"cpu": 0.5, "cuda": 0.85}
QUANTIZED_AT_LOADING = ("int8", "int4")
POLICY_REASONS = {
    "fcfs": "by arrival",
    "lpm": "longest cached prefix first",
    "dfs-weight": "along the tree of cached prefixes",
    "lof": "longest answer first",
    "random": "in random order",
}
# Of so many cores, one is left to HTTP and detokenising: of more where there are several processes for HTTP.
CORES_PER_FRONT_CORE, CORES_PER_CORE_OF_FRONTS = 8, 4


def resolve(args: ServerArgs, config: ModelConfig, facts: DeviceFacts, tp_size: int) -> RuntimePlan:
    """Every decision for one rank of `tp_size`. The same on every rank."""
    check_tp_size(tp_size, config.num_kv_heads, facts.kind)
    check_dp_size(args.dp_size, facts.kind)
    dtype, why_dtype = resolve_dtype(args.dtype, facts)
    context_length, why_context = resolve_context_length(args.context_length, config.max_position)
    page_size, why_page = resolve_page_size(args.page_size)
    chunk, why_chunk = resolve_chunk(args.chunked_prefill_size, page_size, context_length, facts.kind)
    fraction, why_fraction = resolve_mem_fraction(args.mem_fraction_static, facts.kind)
    threads, why_threads = resolve_threads(
        args.cpu_threads, facts, num_ranks=tp_size * args.dp_size, num_fronts=args.tokenizer_worker_num
    )
    all_reduce, why_all_reduce = resolve_all_reduce(
        tp_size, facts, disable_custom=args.disable_custom_all_reduce
    )
    backend, why_backend = resolve_attention_backend(args.attention_backend, facts)
    layers, why_layers = resolve_layers(backend, dtype, facts, args.quantization)
    quantization, why_quantization = resolve_quantization(
        args.quantization, layers, why_layers, config, uses_amx=facts.kernels.use_amx
    )
    overlaps, why_overlaps = resolve_overlap(
        facts.kind, enable=args.enable_overlap_schedule, disable=args.disable_overlap_schedule
    )
    policy, why_policy = resolve_policy(args.schedule_policy, use_radix_cache=not args.disable_radix_cache)
    return RuntimePlan(
        device=facts.kind,
        dtype=dtype,
        kv_cache_dtype=dtype,
        attention_backend=backend,
        layers=layers,
        quantization=quantization,
        num_threads=threads,
        all_reduce=all_reduce,
        context_length=context_length,
        page_size=page_size,
        chunked_prefill_size=chunk,
        mem_fraction_static=fraction,
        max_total_tokens=check_max_total_tokens(args.max_total_tokens, page_size),
        max_running_requests=args.max_running_requests,
        schedule_policy=policy,
        use_radix_cache=not args.disable_radix_cache,
        radix_eviction_policy=args.radix_eviction_policy,
        overlaps_schedule=overlaps,
        reasons={
            "device": f"{facts.name}, {facts.num_cores} cores, {facts.total_memory / 2**30:.1f} GiB",
            "dtype": why_dtype,
            "context_length": why_context,
            "page_size": why_page,
            "chunked_prefill_size": why_chunk,
            "mem_fraction_static": why_fraction,
            "num_threads": why_threads,
            "all_reduce": why_all_reduce,
            "attention_backend": why_backend,
            "layers": why_layers,
            "quantization": why_quantization,
            "schedule_policy": why_policy,
            "overlaps_schedule": why_overlaps,
        },
    )


def check_tp_size(tp_size: int, num_kv_heads: int, device: str) -> None:
    """Every rank needs at least one group of heads that share keys and values."""
    if tp_size > num_kv_heads:
        raise StartupError(
            f"--tp-size {tp_size} is more than the model's {num_kv_heads} key-value heads; "
            f"the largest usable size is {num_kv_heads}"
        )
    if tp_size > 1 and device != "cpu":
        raise StartupError(f"--tp-size {tp_size} is supported on CPUs only, and the model runs on {device}")


def check_dp_size(dp_size: int, device: str) -> None:
    """Replicas share the cores and the memory of one machine."""
    if dp_size > 1 and device != "cpu":
        raise StartupError(f"--dp-size {dp_size} is supported on CPUs only, and the model runs on {device}")


def resolve_load_balance(asked: str, *, use_radix_cache: bool) -> tuple[str, str]:
    """How requests are shared among replicas: a name of managers/dispatch_policy.py."""
    method = LOAD_BALANCE_SPELLINGS.get(asked, asked)
    if method in ("auto", "prefix_aware") and not use_radix_cache:
        return "least_requests", "there is no prefix cache to be aware of"
    if method == "auto":
        return "prefix_aware", "where the prompt's beginning is cached, unless it is much busier there"
    return method, "asked for by --load-balance-method"


def resolve_dtype(asked: str, facts: DeviceFacts) -> tuple[str, str]:
    """Of weights and activations."""
    if asked != "auto":
        return DTYPE_NAMES.get(asked, asked), "asked for by --dtype"
    if facts.has_bf16:
        return "bfloat16", f"this {facts.kind} multiplies bfloat16 in hardware"
    return "float32", f"this {facts.kind} has no bfloat16 instructions"


def resolve_context_length(asked: int | None, max_position: int) -> tuple[int, str]:
    """Longest prompt and answer together."""
    if asked is None:
        return max_position, "the checkpoint's"
    if asked > max_position:
        raise StartupError(f"--context-length {asked} is more than the checkpoint's {max_position}")
    return asked, f"asked for by --context-length; the checkpoint allows {max_position}"


def resolve_page_size(asked: int) -> tuple[int, str]:
    """Tokens in one KV page."""
    if asked < 1:
        raise StartupError(f"--page-size must be at least 1, not {asked}")
    return asked, "every token can be shared" if asked == 1 else "prefixes are shared in whole pages"


def resolve_chunk(asked: int | None, page_size: int, context_length: int, device: str) -> tuple[int, str]:
    """Most new tokens in one step. A chunk that is not a request's last ends on a page border."""
    if asked == -1:
        return max(context_length, page_size), "chunking is off"
    if asked is None:
        return max(DEFAULT_CHUNK[device], page_size), f"the default on a {device}"
    if asked < 1:
        raise StartupError(f"--chunked-prefill-size must be at least 1, or -1 for no chunking, not {asked}")
    if asked < page_size:
        raise StartupError(f"--chunked-prefill-size {asked} is less than --page-size {page_size}")
    return asked, "asked for by --chunked-prefill-size"


def resolve_mem_fraction(asked: float | None, device: str) -> tuple[float, str]:
    """Share of the memory that is free at the start, for weights and KV cache together."""
    if asked is None:
        return DEFAULT_MEM_FRACTION[device], f"the default on a {device}"
    if not 0 < asked < 1:
        raise StartupError(f"--mem-fraction-static must be between 0 and 1, not {asked}")
    return asked, "asked for by --mem-fraction-static"


def resolve_threads(
    asked: int | None, facts: DeviceFacts, *, num_ranks: int, num_fronts: int
) -> tuple[int, str]:
    """Compute threads of one rank. More threads than cores would wait for each other at every layer.

    The other processes get what they can fill, if there are enough: a core for each that serves HTTP, and one for the
    detokenizer. Two threads of one core compute no more than one, so a core's second thread is theirs for nothing.
    """
    ranks = "one rank" if num_ranks == 1 else f"{num_ranks} ranks"
    if asked is not None:
        if asked < 1:
            raise StartupError(f"--cpu-threads must be at least 1, not {asked}")
        return max(asked // num_ranks, 1), f"--cpu-threads {asked} for {ranks}"
    cores_per_other = CORES_PER_FRONT_CORE if num_fronts == 1 else CORES_PER_CORE_OF_FRONTS
    num_others = min(num_fronts + 1, facts.num_cores // cores_per_other)
    kept_back = max(num_others, facts.num_siblings)
    threads = max((facts.num_cores - kept_back) // num_ranks, 1)
    others = f"{kept_back or 'none'} of them for HTTP and text"
    if facts.num_siblings:
        others += f", {facts.num_siblings} being second threads of a core"
    return threads, f"{facts.num_cores} cores, {others}, the others for {ranks}"


def resolve_all_reduce(tp_size: int, facts: DeviceFacts, *, disable_custom: bool) -> tuple[str, str]:
    """How ranks add up their summands, lay them side by side, and hear rank 0."""
    if tp_size == 1:
        return "none", "a rank alone"
    if disable_custom:
        return "gloo", "asked for by --disable-custom-all-reduce"
    if not facts.kernels.are_there:
        return "gloo", f"over loopback; {facts.kernels.reason}"
    if tp_size > MAX_RANKS_IN_MEMORY:
        return "gloo", f"over loopback; no more than {MAX_RANKS_IN_MEMORY} ranks meet in shared memory"
    return "shared_memory", "all ranks are on this machine, and there are native kernels"


def resolve_overlap(device: str, *, enable: bool, disable: bool) -> tuple[bool, str]:
    """On a CPU the scheduler and the model want the same cores, so there is nothing to gain."""
    if enable or disable:
        return enable, "as asked"
    return device != "cpu", f"the default on a {device}"


def resolve_attention_backend(asked: str, facts: DeviceFacts) -> tuple[str, str]:
    """Which implementation of attention."""
    if asked == "auto" and facts.kernels.are_there:
        return "native", facts.kernels.reason
    if asked == "auto":
        return "torch_native", f"the one that runs everywhere; {facts.kernels.reason}"
    if asked == "native" and not facts.kernels.are_there:
        raise StartupError(
            f"--attention-backend native was asked for, but {facts.kernels.reason}",
            hint="leave it out, and torch's own kernels are used where ours cannot be built",
        )
    return asked, "asked for by --attention-backend"


def resolve_layers(
    attention_backend: str, dtype: str, facts: DeviceFacts, quantization: str
) -> tuple[str, str]:
    """What multiplies, normalises and adds around attention."""
    if attention_backend != "native":
        return "torch", "native ones go with native attention"
    if dtype != "bfloat16" or not facts.kernels.multiply_bfloat16:
        return "torch", "native ones want bfloat16, and AVX-512 that multiplies it"
    if facts.has_amx and not facts.kernels.know_amx and quantization not in QUANTIZED_AT_LOADING:
        return "torch", "oneDNN uses this processor's AMX, which the C++ compiler does not know"
    return "native", "C++, all layers in one call"


def resolve_quantization(
    asked: str, layers: str, why_layers: str, config: ModelConfig, *, uses_amx: bool
) -> tuple[str, str]:
    """What weights are multiplied as."""
    is_gguf = config.checkpoint_format == "gguf"
    if asked in QUANTIZED_AT_LOADING:
        if is_gguf:
            raise StartupError(
                f"--quantization {asked} is for unquantised checkpoints, and {config.path} is a GGUF file",
                hint="leave it out: the file's weights are multiplied as it has them",
            )
        if layers != "native":
            raise StartupError(
                f"--quantization {asked} needs native layers, and layers are torch's here: {why_layers}",
                hint="leave it out, and weights are of --dtype",
            )
        return asked, "asked for by --quantization"
    if not is_gguf:
        return "none", "the checkpoint is no GGUF file"
    if asked == "none":
        return "none", "asked for by --quantization"
    if layers != "native":
        return "none", "weights are rounded to the model's type; only native layers know others"
    if uses_amx:
        return "none", "this processor's AMX multiplies bfloat16, and not weights as the file has them"
    return "stored", "as the file has them; types without a kernel are rounded to the model's type"


def resolve_policy(asked: str, *, use_radix_cache: bool) -> tuple[str, str]:
    """Order of the waiting queue."""
    if asked in ("lpm", "dfs-weight") and not use_radix_cache:
        return "fcfs", f"{asked} needs the prefix cache, which is off"
    return asked, POLICY_REASONS[asked]


def check_max_total_tokens(asked: int | None, page_size: int) -> int | None:
    """The user's cap on the KV pool, if it holds a page at all."""
    if asked is not None and asked < page_size:
        raise StartupError(f"--max-total-tokens {asked} is less than one page of {page_size} tokens")
    return asked
