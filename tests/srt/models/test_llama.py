"""Every supported model, against transformers, in float32 on tiny random checkpoints."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from srt.forward_batch import ForwardBatch
from srt.model_executor.model_runner import ModelRunner
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.real_runner import load_runner
from tests.fakes.tiny_checkpoint import make_tiny_model, write_tiny_checkpoint

TOLERANCE = 1e-4
PROMPT = [(7 * i * i + 3 * i + 5) % 131 for i in range(40)]


@dataclass(frozen=True)
class Variant:
    name: str
    architecture: str
    settings: dict[str, Any]


def rope(kind: str, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}}


LLAMA, QWEN2, QWEN3, MISTRAL = (
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "MistralForCausalLM",
)
LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=64)
VARIANTS = [
    Variant("llama", LLAMA, {}),
    Variant("tied-head", LLAMA, {"tie_word_embeddings": True}),
    Variant("all-biases", LLAMA, {"attention_bias": True, "mlp_bias": True}),
    Variant("long-heads", LLAMA, {"head_dim": 20}),
    Variant("one-query-a-group", LLAMA, {"num_key_value_heads": 6}),
    Variant("rope-theta", LLAMA, rope("default", rope_theta=500.0)),
    Variant("rope-linear", LLAMA, rope("linear", factor=4.0)),
    Variant("rope-dynamic", LLAMA, rope("dynamic", factor=2.0)),
    Variant("rope-llama3", LLAMA, LLAMA3),
    Variant("rope-yarn", LLAMA, YARN),
    Variant(
        "rope-yarn-settings",
        LLAMA,
        rope(
            "yarn",
            factor=4.0,
            original_max_position_embeddings=64,
            beta_fast=16.0,
            beta_slow=2.0,
            truncate=False,
            mscale=1.0,
            mscale_all_dim=0.5,
        ),
    ),
    Variant("mistral", MISTRAL, {"sliding_window": None, "head_dim": 8}),
    Variant("mistral-window", MISTRAL, {"sliding_window": 7, "head_dim": 8}),
    Variant("qwen2", QWEN2, {}),
    Variant("qwen2-tied", QWEN2, {"tie_word_embeddings": True}),
    Variant("qwen2-window", QWEN2, {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    Variant("qwen3", QWEN3, {"head_dim": 16}),
    Variant("qwen3-bias", QWEN3, {"head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}),
    Variant(
        "qwen3-window",
        QWEN3,
        {
            "head_dim": 16,
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
]


@dataclass(frozen=True)
class Pair:
    """A model served by us, and the same model in transformers."""

    runner: ModelRunner
    reference: transformers.PreTrainedModel

    def reference_logits(self, token_ids: list[int]) -> torch.Tensor:
        """(tokens, vocab) of one sequence."""
        with torch.inference_mode():
            logits: torch.Tensor = self.reference(torch.tensor([token_ids])).logits[0]
        return logits


@pytest.fixture(params=VARIANTS, ids=lambda variant: variant.name, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    variant: Variant = request.param
    return make_pair(tmp_path_factory.mktemp(variant.name), variant.architecture, **variant.settings)


def make_pair(folder: Path, architecture: str, *, page_size: int = 1, **settings: Any) -> Pair:
    write_tiny_checkpoint(folder, architecture, **settings)
    runner = load_runner(folder, page_size=page_size)
    return Pair(runner, make_tiny_model(architecture, **settings))


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)
    assert ours.argmax(-1).tolist() == theirs.argmax(-1).tolist()


def with_all_logits(batch: ForwardBatch) -> ForwardBatch:
    return ForwardBatch(
        **{
            **{name: getattr(batch, name) for name in batch.__slots__},
            "logit_rows": torch.arange(batch.num_tokens),
        }
    )


def test_whole_prefill_gives_the_reference_logits_of_every_token(pair: Pair) -> None:
    batch = with_all_logits(extend([(Tokens(), PROMPT)], Slots(1000)))
    assert_close(pair.runner.forward(batch).logits, pair.reference_logits(PROMPT))


def test_chunked_prefill_and_greedy_decode_give_the_reference_logits(pair: Pair) -> None:
    slots, sequence = Slots(1000, seed=1), Tokens()
    expected = pair.reference_logits(PROMPT)
    for start, stop in ((0, 11), (11, 12), (12, 29), (29, 40)):
        logits = pair.runner.forward(extend([(sequence, PROMPT[start:stop])], slots)).logits
        assert_close(logits[0], expected[stop - 1])
    for _ in range(12):
        token = int(logits[0].argmax())
        logits = pair.runner.forward(extend([(sequence, [token])], slots)).logits
        assert_close(logits[0], pair.reference_logits(sequence.token_ids)[-1])
    assert len(set(sequence.token_ids[len(PROMPT) :])) > 2, "the text must vary to show anything"


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize(
    ("architecture", "settings"),
    [(LLAMA, {}), (MISTRAL, {"sliding_window": 7, "head_dim": 8})],
    ids=["full", "window"],
)
def test_rows_of_a_mixed_batch_do_not_see_each_other(
    page_size: int, architecture: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    pair = make_pair(tmp_path, architecture, page_size=page_size, **settings)
    slots = Slots(1024 // page_size - 1, page_size, seed=2)
    prompts = [PROMPT[: 3 * n + 1] for n in range(9)]  # lengths 1 … 25: several decode buckets
    sequences = [Tokens() for _ in prompts]
    for sequence, prompt in zip(sequences, prompts, strict=True):
        pair.runner.forward(extend([(sequence, prompt)], slots))
    chunked, fresh = Tokens(), Tokens()
    pair.runner.forward(extend([(chunked, PROMPT[:13])], slots))

    decodes = [(sequence, [17 + n]) for n, sequence in enumerate(sequences)]
    batch = extend(
        [*decodes, (chunked, PROMPT[13:30]), (fresh, PROMPT[5:9])],
        slots,
        wants_logits=[True] * len(decodes) + [False, True],
    )
    logits = pair.runner.forward(batch).logits

    expected = [pair.reference_logits(sequence.token_ids)[-1] for sequence in [*sequences, fresh]]
    assert_close(logits, torch.stack(expected))
    last = pair.runner.forward(extend([(chunked, PROMPT[30:31])], slots)).logits
    assert_close(last[0], pair.reference_logits(PROMPT[:31])[-1])


def test_a_batch_that_wants_no_logits_gives_none(tmp_path: Path) -> None:
    runner = load_runner(write_tiny_checkpoint(tmp_path))
    batch = extend([(Tokens(), PROMPT)], Slots(100), wants_logits=[False])
    assert runner.forward(batch).logits.shape == (0, 131)


def test_dynamic_rope_beyond_the_original_length_gives_the_reference_decode(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, LLAMA, max_position_embeddings=32, **rope("dynamic", factor=4.0))
    slots, sequence = Slots(1000), Tokens()
    with torch.inference_mode():
        cache = transformers.DynamicCache(config=pair.reference.config)
        pair.reference(torch.tensor([PROMPT[:30]]), cache=cache)
        pair.runner.forward(extend([(sequence, PROMPT[:30])], slots))
        for token in PROMPT[30:]:
            theirs = pair.reference(torch.tensor([[token]]), cache=cache)
            ours = pair.runner.forward(extend([(sequence, [token])], slots)).logits
            assert_close(ours[0], theirs.logits[0, -1])


def test_dynamic_rope_beyond_the_original_length_does_not_depend_on_chunks(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, max_position_embeddings=16, **rope("dynamic", factor=4.0))
    runner = load_runner(tmp_path)

    def prefill(*borders: int) -> torch.Tensor:
        sequence, slots = Tokens(), Slots(200)
        logits = torch.empty(0)
        for start, stop in zip((0, *borders), (*borders, len(PROMPT)), strict=True):
            logits = runner.forward(extend([(sequence, PROMPT[start:stop])], slots)).logits
        return logits

    torch.testing.assert_close(prefill(), prefill(5, 20), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("rename", [lambda kind: {"type": kind}, lambda kind: {"rope_type": kind}])
def test_both_spellings_of_rope_settings_give_the_same_model(
    rename: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    write_tiny_checkpoint(tmp_path, **YARN)
    expected = load_runner(tmp_path).forward(extend([(Tokens(), PROMPT)], Slots(100))).logits
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    settings = config.pop("rope_parameters")
    config["rope_theta"] = settings.pop("rope_theta")
    config["rope_scaling"] = {**settings, **rename(settings.pop("rope_type"))}
    path.write_text(json.dumps(config))
    found = load_runner(tmp_path).forward(extend([(Tokens(), PROMPT)], Slots(100))).logits
    assert torch.equal(found, expected)
