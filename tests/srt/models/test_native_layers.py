"""Layers in native kernels: as exact as torch's in bfloat16, and a row's logits do not depend on its neighbours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from srt.configs.checkpoint import find_model
from srt.distributed.collectives import TpGroup
from srt.layers.native.load import kernels
from srt.model_executor.model_runner import ModelRunner
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.ranks_in_threads import run_in_threads
from tests.fakes.real_runner import load_runner
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint
from tests.fakes.tiny_gguf import write_quantized_gguf

PROMPTS = [
    [(7 * i * i + 3 * i + n) % 131 for i in range(length)] for n, length in enumerate((40, 1, 23, 9, 70))
]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {}),
    "biases": ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "long-heads": ("LlamaForCausalLM", {"head_dim": 40}),
    "window": ("MistralForCausalLM", {"sliding_window": 7, "head_dim": 8}),
    "qk-norm": ("Qwen3ForCausalLM", {"head_dim": 16}),
}
QUESTION = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
What is the capital of France?<|im_end|>
<|im_start|>assistant
"""
NATIVE = {"dtype": "bfloat16", "attention_backend": "native", "layers": "native"}


def logits_of(runner: ModelRunner, vocab_size: int = 131) -> torch.Tensor:
    """All prompts in a batch, then a decode step of each."""
    slots, sequences = Slots(500), [Tokens() for _ in PROMPTS]
    prompts = [[token % vocab_size for token in prompt] for prompt in PROMPTS]
    order = sorted(range(len(PROMPTS)), key=lambda row: len(PROMPTS[row]) > 1)
    batch = extend([(sequences[row], prompts[row]) for row in order], slots)
    prefill = runner.forward(replace(batch, logit_rows=torch.arange(batch.num_tokens))).logits
    decode = runner.forward(extend([(sequence, [5]) for sequence in sequences], slots)).logits
    return torch.cat([prefill, decode])


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours - exact).pow(2).mean().sqrt())


@pytest.mark.parametrize("name", VARIANTS)
def test_native_layers_round_no_worse_than_torchs(name: str, tmp_path: Path) -> None:
    architecture, settings = VARIANTS[name]
    write_tiny_checkpoint(tmp_path, architecture, std=0.1, **settings)
    exact = logits_of(load_runner(tmp_path))
    by_torch = error(logits_of(load_runner(tmp_path, dtype="bfloat16")), exact)
    assert 0 < error(logits_of(load_runner(tmp_path, **NATIVE)), exact) < 1.25 * by_torch


def test_what_is_close_in_float32_is_not_made_equal() -> None:
    """Rounded to bfloat16, two first words of the answer would be equally likely; the lower id begins in French."""
    path = find_model(None)
    tokenizer = load_tokenizer(prepare_tokenizer(path))
    new = tokenizer.encode(QUESTION)
    runner = load_runner(path, **NATIVE, quantization="stored")
    slots, sequence, answer = Slots(100), Tokens(), list[int]()
    while len(answer) < 6:
        new = [int(runner.forward(extend([(sequence, new)], slots)).logits[0].argmax())]
        answer += new
    assert tokenizer.decode(answer) == "The capital of France is Paris"


def test_inputs_in_bytes_round_not_twice_as_much_as_torch_does_in_bfloat16(tmp_path: Path) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", "Q4_1")
    exact = logits_of(load_runner(path), vocab_size=96)
    by_torch = error(logits_of(load_runner(path, dtype="bfloat16"), vocab_size=96), exact)
    runner = load_runner(path, **NATIVE, quantization="stored")
    assert 0 < error(logits_of(runner, vocab_size=96), exact) < 2 * by_torch


QUANTIZABLE = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_weights_quantised_while_loading_are_multiplied_as_plain_torch_does(
    tmp_path: Path, quantization: str, is_tied: bool
) -> None:
    write_tiny_checkpoint(tmp_path, std=0.1, tie_word_embeddings=is_tied, **QUANTIZABLE)
    unquantised = logits_of(load_runner(tmp_path))
    exact = logits_of(load_runner(tmp_path, quantization=quantization))  # in float32, by torch
    by_torch = error(logits_of(load_runner(tmp_path, dtype="bfloat16", quantization=quantization)), exact)
    ours = logits_of(load_runner(tmp_path, **NATIVE, quantization=quantization))
    assert error(ours, exact) < 2 * by_torch
    assert error(exact, unquantised) > by_torch, "as if nothing were quantised"


def test_quantised_ranks_add_up_to_one(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, std=0.1, tie_word_embeddings=True, **QUANTIZABLE)
    settings = {**NATIVE, "quantization": "int4"}
    exact = logits_of(load_runner(tmp_path, quantization="int4"))
    alone = error(logits_of(load_runner(tmp_path, **settings)), exact)
    first, second = run_in_threads(
        2, tmp_path, lambda group: logits_of(load_runner(tmp_path, group=group, **settings))
    )
    assert torch.equal(first, second)
    assert error(first, exact) < 1.5 * alone


def test_a_tied_head_is_held_once(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, tie_word_embeddings=True, **QUANTIZABLE)
    tied = load_runner(tmp_path, **NATIVE).stats().weight_bytes
    untied_folder = tmp_path / "untied"
    write_tiny_checkpoint(untied_folder, tie_word_embeddings=False, **QUANTIZABLE)
    untied = load_runner(untied_folder, **NATIVE).stats().weight_bytes
    assert untied - tied == 2 * 131 * 64  # the embedding, row by row


def test_a_sequences_logits_are_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path)
    runner = load_runner(tmp_path, **NATIVE)
    slots, together = Slots(500), [Tokens() for _ in PROMPTS]
    for sequence, prompt in zip(together, PROMPTS, strict=True):
        runner.forward(extend([(sequence, prompt)], slots))
    batch = runner.forward(extend([(sequence, [5]) for sequence in together], slots)).logits
    alone = Tokens()
    for start in range(0, 40, 13):  # in chunks, too
        runner.forward(extend([(alone, PROMPTS[0][start : start + 13])], slots))
    assert torch.equal(runner.forward(extend([(alone, [5])], slots)).logits[0], batch[0])


def prefill_and_decode(runner: ModelRunner, wanted: list[bool], *, all_tokens: bool) -> torch.Tensor:
    """Logits of those prompts' ends that are wanted, then of a decode step of all."""
    slots, sequences = Slots(500), [Tokens() for _ in PROMPTS]
    batch = extend(
        [(sequences[row], PROMPTS[row]) for row in ROWS], slots, wants_logits=[wanted[row] for row in ROWS]
    )
    every = replace(batch, logit_rows=torch.arange(batch.num_tokens))
    logits = runner.forward(every).logits[batch.logit_rows] if all_tokens else runner.forward(batch).logits
    return torch.cat([logits, runner.forward(extend([(each, [5]) for each in sequences], slots)).logits])


ROWS = sorted(range(len(PROMPTS)), key=lambda row: len(PROMPTS[row]) > 1)  # one token first
WANTED = [[True] * 5, [True, False, True, False, False], [False, True, False, False, True], [False] * 5]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_what_the_last_layer_leaves_undone_changes_no_bit_of_the_rest(
    name: str, num_threads: int, tmp_path: Path
) -> None:
    architecture, settings = VARIANTS[name]
    write_tiny_checkpoint(tmp_path, architecture, **settings)
    before = torch.get_num_threads()
    try:
        runner = load_runner(tmp_path, **NATIVE, num_threads=num_threads)
        for wanted in WANTED:
            some, all_ = (prefill_and_decode(runner, wanted, all_tokens=way) for way in (False, True))
            assert len(some) == sum(wanted) + len(PROMPTS)
            assert torch.equal(some, all_)
    finally:
        torch.set_num_threads(before)


def test_ranks_leave_the_same_undone(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, **QUANTIZABLE)

    def work(group: TpGroup) -> list[list[torch.Tensor]]:
        runner = load_runner(tmp_path, group=group, **NATIVE)
        return [
            [prefill_and_decode(runner, wanted, all_tokens=way) for way in (False, True)] for wanted in WANTED
        ]

    for rank in run_in_threads(2, tmp_path, work):
        assert all(torch.equal(some, all_) for some, all_ in rank)


def test_logits_are_the_same_bits_on_any_number_of_threads(tmp_path: Path) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", "Q4_1")
    before = torch.get_num_threads()
    try:
        for settings in ({}, {"quantization": "stored"}):
            by_one, *by_more = (
                logits_of(load_runner(path, **NATIVE, **settings, num_threads=threads), vocab_size=96)
                for threads in (1, 2, 3)
            )
            assert all(torch.equal(logits, by_one) for logits in by_more)
    finally:
        torch.set_num_threads(before)


def test_torch_computes_alone_beside_native_layers(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path)
    before = torch.get_num_threads()
    try:
        load_runner(tmp_path, **NATIVE, num_threads=2)
        assert (torch.get_num_threads(), kernels().threads()) == (1, 2)
        load_runner(tmp_path, attention_backend="native", num_threads=3)
        assert (torch.get_num_threads(), kernels().threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_one_sequence_alone_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    """Few tokens take other ways through the kernels."""
    write_tiny_checkpoint(tmp_path)
    before, texts = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            runner, slots, sequence = (
                load_runner(tmp_path, **NATIVE, num_threads=threads),
                Slots(200),
                Tokens(),
            )
            logits = [runner.forward(extend([(sequence, PROMPTS[0])], slots)).logits]
            logits += [runner.forward(extend([(sequence, [token])], slots)).logits for token in range(20)]
            texts.append(torch.cat(logits))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])


class Apart:
    """TpGroup whose ranks add up after every block, as over gloo."""

    def __init__(self, group: TpGroup) -> None:
        self.rank = group.rank
        self.all_reduce = group.all_reduce
        self.all_gather_columns = group.all_gather_columns
        self.all_reduce_min = group.all_reduce_min
        self.broadcast_bytes = group.broadcast_bytes
        self.close = group.close


@pytest.mark.parametrize(("size", "num_threads"), [(2, 1), (3, 2)])
def test_ranks_add_up_to_one(tmp_path: Path, size: int, num_threads: int) -> None:
    write_tiny_checkpoint(tmp_path, std=0.1, intermediate_size=96, attention_bias=True, mlp_bias=True)
    exact = logits_of(load_runner(tmp_path))
    by_torch = error(logits_of(load_runner(tmp_path, dtype="bfloat16")), exact)

    def run_rank(group: TpGroup) -> torch.Tensor:
        in_one_call = logits_of(load_runner(tmp_path, group=group, **NATIVE, num_threads=num_threads))
        assert torch.equal(logits_of(load_runner(tmp_path, group=Apart(group), **NATIVE)), in_one_call)
        return in_one_call

    before = torch.get_num_threads()
    try:
        first, *others = run_in_threads(size, tmp_path, run_rank)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(other, first) for other in others)
    assert error(first, exact) < 1.25 * by_torch
