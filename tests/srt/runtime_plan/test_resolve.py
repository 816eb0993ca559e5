"""Each decision, from what was asked and what there is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srt.configs.hf_config import load_hf_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.runtime_plan.plan import DeviceFacts, KernelFacts, RuntimePlan
from srt.runtime_plan.resolve import resolve, resolve_load_balance
from srt.server_args.server_args import ServerArgs

CPU: dict[str, Any] = {
    "kind": "cpu",
    "name": "a processor",
    "num_cores": 2,
    "total_memory": 8 * 2**30,
    "has_bf16": True,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    folder: Path = tmp_path_factory.mktemp("model")
    values = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 8,
        "max_position_embeddings": 2048,
    }
    (folder / "config.json").write_text(json.dumps(values))
    return load_hf_config(folder)


def plan(
    config: ModelConfig, *, tp_size: int = 1, facts: dict[str, Any] | None = None, **flags: Any
) -> RuntimePlan:
    return resolve(ServerArgs(**flags), config, DeviceFacts(**{**CPU, **(facts or {})}), tp_size)


def test_without_flags_the_machine_and_the_checkpoint_decide(config: ModelConfig) -> None:
    decided = plan(config)
    assert decided.dtype == decided.kv_cache_dtype == "bfloat16"
    assert decided.attention_backend == "torch_native"
    assert decided.num_threads == 2
    assert decided.context_length == 2048
    assert decided.chunked_prefill_size == 512
    assert decided.mem_fraction_static == 0.5
    assert decided.use_radix_cache


def test_overlap_follows_the_device_unless_asked(config: ModelConfig) -> None:
    assert not plan(config).overlaps_schedule
    assert plan(config, enable_overlap_schedule=True).overlaps_schedule
    on_gpu = {"kind": "cuda", "name": "a GPU"}
    assert plan(config, facts=on_gpu).overlaps_schedule
    assert not plan(config, facts=on_gpu, disable_overlap_schedule=True).overlaps_schedule


def test_every_reason_belongs_to_a_decision(config: ModelConfig) -> None:
    decided = plan(config)
    assert all(hasattr(decided, name) and reason for name, reason in decided.reasons.items())


@pytest.mark.parametrize(
    ("asked", "has_bf16", "expected"),
    [
        ("auto", True, "bfloat16"),
        ("auto", False, "float32"),
        ("half", True, "float16"),
        ("float", True, "float32"),
        ("bfloat16", False, "bfloat16"),
    ],
)
def test_dtype(asked: str, has_bf16: bool, expected: str, config: ModelConfig) -> None:
    assert plan(config, dtype=asked, facts={"has_bf16": has_bf16}).dtype == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"chunked_prefill_size": 64}, 64),
        ({"chunked_prefill_size": -1}, 2048),
        ({"page_size": 1024}, 1024),  # the default chunk would hold no page
        ({"chunked_prefill_size": -1, "page_size": 4096}, 4096),
    ],
)
def test_chunk_size(flags: dict[str, Any], expected: int, config: ModelConfig) -> None:
    assert plan(config, **flags).chunked_prefill_size == expected


@pytest.mark.parametrize(
    ("num_cores", "tp_size", "cpu_threads", "expected"),
    [
        (2, 1, None, 2),
        (2, 2, None, 1),
        (2, 3, None, 1),
        (16, 1, None, 14),  # two are left to the front
        (16, 3, None, 4),
        (16, 2, 8, 4),
        (96, 1, None, 94),  # more than two the front could not fill
    ],
)
def test_threads_are_shared_among_ranks(
    num_cores: int, tp_size: int, cpu_threads: int | None, expected: int, config: ModelConfig
) -> None:
    facts = {"num_cores": num_cores}
    assert plan(config, tp_size=tp_size, facts=facts, cpu_threads=cpu_threads).num_threads == expected


@pytest.mark.parametrize(
    ("num_cores", "num_siblings", "num_fronts", "expected"),
    [
        (2, 0, 4, 2),  # too few to give one away
        (4, 0, 2, 3),
        (16, 0, 2, 13),  # two for HTTP, one for text
        (16, 0, 8, 12),  # but no more than a quarter
        (2, 1, 1, 1),  # two threads of one core
        (16, 8, 1, 8),
        (16, 3, 8, 12),
    ],
)
def test_the_other_processes_have_cores_of_their_own_where_there_are_enough(
    num_cores: int, num_siblings: int, num_fronts: int, expected: int, config: ModelConfig
) -> None:
    facts = {"num_cores": num_cores, "num_siblings": num_siblings}
    assert plan(config, facts=facts, tokenizer_worker_num=num_fronts).num_threads == expected


def test_it_is_said_what_the_cores_are_for(config: ModelConfig) -> None:
    def why(**facts: int) -> str:
        return plan(config, facts=facts).reasons["num_threads"]

    assert why(num_cores=2) == "2 cores, none of them for HTTP and text, the others for one rank"
    assert why(num_cores=8) == "8 cores, 1 of them for HTTP and text, the others for one rank"
    assert why(num_cores=4, num_siblings=2) == (
        "4 cores, 2 of them for HTTP and text, 2 being second threads of a core, the others for one rank"
    )


def test_longest_prefix_first_needs_a_prefix_cache(config: ModelConfig) -> None:
    assert plan(config, schedule_policy="lpm").schedule_policy == "lpm"
    decided = plan(config, schedule_policy="lpm", disable_radix_cache=True)
    assert decided.schedule_policy == "fcfs"
    assert "lpm needs the prefix cache" in decided.reasons["schedule_policy"]


def test_native_attention_where_its_kernels_are_and_torchs_elsewhere(config: ModelConfig) -> None:
    built = {"kernels": KernelFacts(are_there=True, reason="compiled just now")}
    missing = {"kernels": KernelFacts(are_there=False, reason="there is no compiler")}
    decided = plan(config, facts=built)
    assert (decided.attention_backend, decided.reasons["attention_backend"]) == (
        "native",
        "compiled just now",
    )
    assert plan(config, facts=built, attention_backend="torch_native").attention_backend == "torch_native"
    decided = plan(config, facts=missing)
    assert decided.attention_backend == "torch_native"
    assert "there is no compiler" in decided.reasons["attention_backend"]
    with pytest.raises(StartupError, match="native was asked for, but there is no compiler"):
        plan(config, facts=missing, attention_backend="native")


def test_native_layers_where_they_are_fastest(config: ModelConfig) -> None:
    kernels = KernelFacts(are_there=True, reason="compiled just now", multiply_bfloat16=True)
    built: dict[str, Any] = {"kernels": kernels}
    assert plan(config, facts=built).layers == "native"
    assert plan(config, facts={**built, "has_amx": True}).layers == "torch"
    knowing = replace(kernels, know_amx=True)
    assert plan(config, facts={"kernels": knowing, "has_amx": True}).layers == "native"
    assert plan(config, facts=built, dtype="float32").layers == "torch"
    assert plan(config, facts=built, attention_backend="torch_native").layers == "torch"
    assert plan(config, facts={"kernels": replace(kernels, multiply_bfloat16=False)}).layers == "torch"


def test_quantised_weights_are_kept_where_something_multiplies_them(config: ModelConfig) -> None:
    kernels = KernelFacts(are_there=True, reason="compiled just now", multiply_bfloat16=True)
    from_gguf = replace(config, checkpoint_format="gguf")
    built: dict[str, Any] = {"kernels": kernels}
    assert plan(from_gguf, facts=built).quantization == "stored"
    assert plan(from_gguf, facts=built, quantization="none").quantization == "none"
    assert plan(from_gguf).quantization == "none"
    assert plan(config, facts=built).quantization == "none"
    with_tiles = replace(kernels, know_amx=True, use_amx=True)
    assert plan(from_gguf, facts={"kernels": with_tiles, "has_amx": True}).quantization == "none"


def test_weights_are_quantised_for_native_layers_only_and_once(config: ModelConfig) -> None:
    kernels = KernelFacts(are_there=True, reason="compiled just now", multiply_bfloat16=True)
    decided = plan(config, facts={"kernels": kernels, "has_amx": True}, quantization="int8")
    assert (decided.layers, decided.quantization) == ("native", "int8")
    with pytest.raises(
        StartupError, match="needs native layers, and layers are torch's here: native ones go"
    ):
        plan(config, quantization="int4")
    with pytest.raises(StartupError, match="for unquantised checkpoints"):
        plan(replace(config, checkpoint_format="gguf"), facts={"kernels": kernels}, quantization="int8")


def test_what_was_asked_for_is_done(config: ModelConfig) -> None:
    decided = plan(
        config,
        context_length=100,
        page_size=16,
        mem_fraction_static=0.7,
        max_total_tokens=64,
        max_running_requests=3,
        attention_backend="torch_native",
    )
    assert decided.context_length == 100
    assert decided.page_size == 16
    assert decided.mem_fraction_static == 0.7
    assert decided.max_total_tokens == 64
    assert decided.max_running_requests == 3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"context_length": 4096}, "--context-length 4096 is more than the checkpoint's 2048"),
        ({"page_size": 0}, "--page-size must be at least 1"),
        ({"chunked_prefill_size": 0}, "--chunked-prefill-size must be at least 1, or -1"),
        (
            {"chunked_prefill_size": 8, "page_size": 16},
            "--chunked-prefill-size 8 is less than --page-size 16",
        ),
        ({"mem_fraction_static": 1.5}, "--mem-fraction-static must be between 0 and 1"),
        ({"max_total_tokens": 8, "page_size": 16}, "--max-total-tokens 8 is less than one page of 16"),
        ({"cpu_threads": 0}, "--cpu-threads must be at least 1"),
    ],
)
def test_what_cannot_be_had_stops_the_start(
    flags: dict[str, Any], sentence: str, config: ModelConfig
) -> None:
    with pytest.raises(StartupError, match=sentence):
        plan(config, **flags)


def test_more_ranks_than_key_value_heads_are_refused(config: ModelConfig) -> None:
    with pytest.raises(StartupError, match="the largest usable size is 3"):
        plan(config, tp_size=4)


def test_several_ranks_on_a_gpu_are_refused(config: ModelConfig) -> None:
    with pytest.raises(StartupError, match="--tp-size 2 is supported on CPUs only"):
        plan(config, tp_size=2, facts={"kind": "cuda"})


def test_replicas_share_the_cores(config: ModelConfig) -> None:
    decided = plan(config, dp_size=2, tp_size=2, facts={"num_cores": 16})
    assert decided.num_threads == (16 - 2) // 4
    assert plan(config, dp_size=2, cpu_threads=6).num_threads == 3


def test_several_replicas_on_a_gpu_are_refused(config: ModelConfig) -> None:
    with pytest.raises(StartupError, match="--dp-size 2 is supported on CPUs only"):
        plan(config, dp_size=2, facts={"kind": "cuda"})


@pytest.mark.parametrize(
    ("asked", "use_radix_cache", "method"),
    [
        ("auto", True, "prefix_aware"),
        ("auto", False, "least_requests"),
        ("prefix_aware", False, "least_requests"),
        ("round_robin", False, "round_robin"),
        ("total_requests", True, "least_requests"),
        ("total_tokens", True, "least_tokens"),
    ],
)
def test_requests_are_shared_out_as_asked_or_by_prefix_where_there_are_any(
    asked: str, use_radix_cache: bool, method: str
) -> None:
    decided, why = resolve_load_balance(asked, use_radix_cache=use_radix_cache)
    assert decided == method
    assert why


def test_ranks_add_up_in_shared_memory_where_there_are_kernels(config: ModelConfig) -> None:
    kernels = {"kernels": KernelFacts(are_there=True, reason="compiled")}
    assert plan(config, facts=kernels).all_reduce == "none"
    assert plan(config, tp_size=2, facts=kernels).all_reduce == "shared_memory"
    assert plan(config, tp_size=2, facts=kernels, disable_custom_all_reduce=True).all_reduce == "gloo"
    without = plan(
        config, tp_size=2, facts={"kernels": KernelFacts(are_there=False, reason="there is no compiler")}
    )
    assert without.all_reduce == "gloo"
    assert without.reasons["all_reduce"] == "over loopback; there is no compiler"
