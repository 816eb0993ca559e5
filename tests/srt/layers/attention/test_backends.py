"""Every attention backend on random batches, against the definition; and what the native one promises beyond that.

The native kernels are tested as this processor runs them, and as any processor would.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mem_cache.kv_pool import KVPool
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import AttentionBackend, AttentionShape
from srt.layers.attention.native import NativeBackend
from srt.layers.attention.torch_native import TorchNativeBackend
from srt.layers.native.build import ANY_PROCESSOR, THIS_PROCESSOR, build_library
from srt.layers.native.load import load_library
from tests.fakes.attention_reference import reference_attention
from tests.fakes.forward_batches import Slots, Tokens, extend

MakeBackend = Callable[[KVPool], AttentionBackend]
# Largest difference to the definition: float32 loses what sums lose, the others the rounding of weights and outputs.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
ROW_LENGTHS = [2, 7, 33, 70, 150]
SHAPE = AttentionShape(layer=0, num_heads=6, num_kv_heads=2, head_dim=64, window=None, scale=0.125)
PREFIX_LENGTHS = [0, 1, 5, 127, 128, 129, 200, 300]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer, one batch: (tokens before, new tokens) of each row; (an earlier row, tokens shared with it)."""

    shape: AttentionShape
    dtype: torch.dtype
    rows: list[tuple[int, int]]
    shared: dict[int, tuple[int, int]] = field(default_factory=dict)
    page_size: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Inputs:
    """A case's tensors."""

    batch: ForwardBatch
    pool: KVPool
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


@st.composite
def cases(draw: st.DrawFn) -> Case:
    group, num_kv_heads = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    head_dim = draw(st.sampled_from([8, 16, 20, 64, 80, 96, 128, 256]))
    shape = AttentionShape(
        layer=draw(st.integers(0, 1)),
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        window=draw(st.sampled_from([None, None, 1, 5, 100, 130])),
        scale=draw(st.sampled_from([1.0, 3.0])) * head_dim**-0.5,
        soft_cap=draw(st.sampled_from([None, None, 5.0, 30.0])),
    )
    prefix = st.sampled_from(PREFIX_LENGTHS)
    decodes = draw(st.lists(st.tuples(prefix, st.just(1)), max_size=4))
    prefills = draw(st.lists(st.tuples(prefix, st.sampled_from(ROW_LENGTHS)), max_size=2))
    rows = decodes + prefills or [(130, 1)]
    return Case(
        shape=shape,
        dtype=draw(st.sampled_from(list(TOLERANCE))),
        rows=rows,
        shared={row: (draw(st.integers(0, row - 1)), draw(prefix)) for row in range(1, len(rows))},
        page_size=draw(st.sampled_from([1, 1, 3, 16])),
        seed=draw(st.integers(0, 1000)),
    )


def make_inputs(case: Case) -> Inputs:
    """Random keys and values everywhere, also where nobody may look."""
    shape = case.shape
    num_pages = sum((before + new) // case.page_size + 2 for before, new in case.rows)
    slots = Slots(num_pages, case.page_size, case.seed)
    sequences: list[Tokens] = []
    for row, (before, _) in enumerate(case.rows):
        owner, num_shared = case.shared.get(row, (0, 0))
        num_shared = min(num_shared, before, case.rows[owner][0]) // case.page_size * case.page_size
        held = sequences[owner].slots[:num_shared] if row else []
        sequences.append(Tokens([0] * len(held), list(held)))
        if before > len(held):
            extend([(sequences[row], [0] * (before - len(held)))], slots)
    new_ids = [[0] * new for _, new in case.rows]
    batch = extend(list(zip(sequences, new_ids, strict=True)), slots)
    pool = KVPool(
        num_layers=2,
        num_slots=(num_pages + 1) * case.page_size,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        dtype=case.dtype,
        device="cpu",
    )
    random = torch.Generator().manual_seed(case.seed)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=random).to(case.dtype)

    for layer in range(2):
        pool.keys(layer).copy_(draw(*pool.keys(layer).shape))
        pool.values(layer).copy_(draw(*pool.values(layer).shape))
    # As models give them: queries, keys and values of a token side by side.
    num_vectors = shape.num_heads + 2 * shape.num_kv_heads
    together = draw(batch.num_tokens, num_vectors, shape.head_dim)
    queries, keys, values = together.split([shape.num_heads, shape.num_kv_heads, shape.num_kv_heads], dim=1)
    return Inputs(batch, pool, queries, keys, values)


def attend(make_backend: MakeBackend, case: Case, inputs: Inputs) -> torch.Tensor:
    prepared = make_backend(inputs.pool).prepare(inputs.batch)
    return prepared.attend(case.shape, inputs.queries, inputs.keys, inputs.values)


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def native(request: pytest.FixtureRequest) -> MakeBackend:
    build = build_library(THIS_PROCESSOR if request.param == "this processor" else ANY_PROCESSOR)
    library = load_library(build)
    return lambda pool: NativeBackend(pool, library)


@contextmanager
def so_many_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_against_definition(make_backend: MakeBackend, case: Case) -> None:
    inputs = make_inputs(case)
    outputs = attend(make_backend, case, inputs)
    layer, slots = case.shape.layer, inputs.batch.out_slots
    assert torch.equal(inputs.pool.keys(layer)[slots], inputs.keys)
    assert torch.equal(inputs.pool.values(layer)[slots], inputs.values)
    expected = reference_attention(inputs.batch, case.shape, inputs.queries, inputs.pool)
    torch.testing.assert_close(outputs.double(), expected, atol=TOLERANCE[case.dtype], rtol=0)


@settings(max_examples=60)
@given(case=cases())
def test_torch_attention_is_attention(case: Case) -> None:
    check_against_definition(TorchNativeBackend, case)


@settings(max_examples=100)
@given(case=cases())
def test_native_attention_is_attention(native: MakeBackend, case: Case) -> None:
    check_against_definition(native, case)


def check_each_row_alone(make_backend: MakeBackend, case: Case) -> None:
    inputs = make_inputs(case)
    together = attend(make_backend, case, inputs)
    batch = inputs.batch
    for row in range(batch.num_rows):
        new = slice(int(batch.row_starts[row]), int(batch.row_starts[row + 1]))
        alone = ForwardBatch(
            input_ids=batch.input_ids[new],
            positions=batch.positions[new],
            out_slots=batch.out_slots[new],
            row_starts=torch.tensor([0, new.stop - new.start], dtype=torch.int32),
            seq_lens=batch.seq_lens[row : row + 1],
            slot_table=batch.slot_table[row : row + 1, : batch.seq_lens_host[row]].contiguous(),
            logit_rows=torch.tensor([], dtype=torch.int64),
            greedy_rows=torch.tensor([], dtype=torch.int64),
            num_decode_rows=int(row < batch.num_decode_rows),
            row_lens_host=batch.row_lens_host[row : row + 1],
            seq_lens_host=batch.seq_lens_host[row : row + 1],
        )
        tensors = Inputs(alone, inputs.pool, inputs.queries[new], inputs.keys[new], inputs.values[new])
        assert torch.equal(attend(make_backend, case, tensors), together[new])


@settings(max_examples=30)
@given(case=cases())
def test_a_rows_bits_do_not_depend_on_the_rows_beside_it(native: MakeBackend, case: Case) -> None:
    check_each_row_alone(native, case)


FAMILIES = {
    "two rows": Case(shape=SHAPE, dtype=torch.bfloat16, rows=[(300, 1), (310, 1)], shared={1: (0, 300)}),
    "a tile's end": Case(
        shape=SHAPE, dtype=torch.bfloat16, rows=[(256, 1)] * 3, shared={1: (0, 256), 2: (0, 255)}
    ),
    "33 rows, and one for itself": Case(
        shape=SHAPE,
        dtype=torch.bfloat16,
        rows=[(400, 1)] + [(270 + row, 1) for row in range(33)],
        shared={row: (1, 270) for row in range(2, 34)},
    ),
    "three share 500, two of them 700": Case(
        shape=SHAPE,
        dtype=torch.bfloat16,
        rows=[(710, 1), (600, 1), (750, 1)],
        shared={1: (0, 500), 2: (0, 700)},
    ),
    "two groups, rows by turns, beside a prompt": Case(
        shape=SHAPE,
        dtype=torch.float32,
        rows=[(400, 1), (390, 1)] * 4 + [(300, 40)],
        shared={row: (row % 2, 380) for row in range(2, 8)} | {8: (0, 300)},
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("window", [None, 150])
def test_rows_that_share_a_prefix_have_the_bits_they_have_alone(
    native: MakeBackend, name: str, num_threads: int, window: int | None
) -> None:
    case = FAMILIES[name]
    with so_many_threads(num_threads):
        check_each_row_alone(native, replace(case, shape=replace(case.shape, window=window)))


@settings(max_examples=30)
@given(case=cases(), num_threads=st.sampled_from([2, 3]))
def test_bits_do_not_depend_on_the_number_of_threads(
    native: MakeBackend, case: Case, num_threads: int
) -> None:
    inputs = make_inputs(case)
    by_one = attend(native, case, inputs)
    with so_many_threads(num_threads):
        by_many = attend(native, case, inputs)
    assert torch.equal(by_one, by_many)


@settings(max_examples=20)
@given(case=cases(), data=st.data())
def test_bits_do_not_depend_on_how_a_prompt_is_cut(
    native: MakeBackend, case: Case, data: st.DataObject
) -> None:
    whole = make_inputs(Case(shape=case.shape, dtype=case.dtype, rows=[(0, 280)], seed=case.seed))
    expected = attend(native, case, whole)
    slots, pieces, start = whole.batch.out_slots, [], 0
    while start < 280:
        stop = min(start + data.draw(st.sampled_from([1, 2, 50, 128, 200])), 280)
        piece = ForwardBatch(
            input_ids=whole.batch.input_ids[start:stop],
            positions=torch.arange(start, stop),
            out_slots=slots[start:stop],
            row_starts=torch.tensor([0, stop - start], dtype=torch.int32),
            seq_lens=torch.tensor([stop], dtype=torch.int32),
            slot_table=slots[:stop].to(torch.int32).unsqueeze(0),
            logit_rows=torch.tensor([], dtype=torch.int64),
            greedy_rows=torch.tensor([], dtype=torch.int64),
            num_decode_rows=int(stop - start == 1),
            row_lens_host=(stop - start,),
            seq_lens_host=(stop,),
        )
        cut = slice(start, stop)
        tensors = Inputs(piece, whole.pool, whole.queries[cut], whole.keys[cut], whole.values[cut])
        pieces.append(attend(native, case, tensors))
        start = stop
    assert torch.equal(torch.cat(pieces), expected)


def test_a_long_sequence_in_bfloat16_keeps_its_precision(native: MakeBackend) -> None:
    shape = AttentionShape(layer=0, num_heads=3, num_kv_heads=1, head_dim=64, window=None, scale=0.125)
    check_against_definition(native, Case(shape=shape, dtype=torch.bfloat16, rows=[(20_000, 1), (6_000, 3)]))
