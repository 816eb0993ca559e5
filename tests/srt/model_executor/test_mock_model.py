import numpy as np
import torch

from srt.forward_batch import ForwardBatch
from srt.model_executor.mock_model import MockModel
from srt.model_executor.warmup import warm_up
from srt.sampling.batch_params import SampleRow
from srt.sampling.params import SamplingParams
from tests.fakes.tokenizer import EOS_ID, VOCAB_SIZE, ByteTokenizer


def mock(**options: float) -> MockModel:
    return MockModel(ByteTokenizer(), vocab_size=VOCAB_SIZE, **options)  # type: ignore[arg-type]


def decode_step(last_ids: list[int], positions: list[int]) -> ForwardBatch:
    num_rows = len(last_ids)
    return ForwardBatch(
        input_ids=torch.tensor(last_ids),
        positions=torch.tensor(positions),
        out_slots=torch.arange(1, num_rows + 1),
        row_starts=torch.arange(num_rows + 1, dtype=torch.int32),
        seq_lens=torch.tensor(positions, dtype=torch.int32) + 1,
        slot_table=torch.zeros(num_rows, max(positions) + 1, dtype=torch.int32),
        logit_rows=torch.arange(num_rows),
        greedy_rows=torch.arange(num_rows),
        num_decode_rows=num_rows,
        row_lens_host=(1,) * num_rows,
        seq_lens_host=tuple(position + 1 for position in positions),
    )


def sample_row(position: int, **sampling: object) -> SampleRow:
    return SampleRow(params=SamplingParams(temperature=0.0, seed=1, **sampling), position=position)  # type: ignore[arg-type]


def generate(model: MockModel, first_id: int, num_tokens: int, **sampling: object) -> list[int]:
    token_ids = [first_id]
    for position in range(num_tokens):
        logits = model.forward(decode_step(token_ids[-1:], [position])).logits
        token_ids += model.sample(logits, [sample_row(position + 1, **sampling)]).tolist()
    return token_ids[1:]


def test_the_text_is_varied_the_same_each_time_and_never_ends_by_itself() -> None:
    answer = generate(mock(), ord("a"), 2000)
    assert answer == generate(mock(), ord("a"), 2000)
    assert answer != generate(mock(), ord("b"), 2000)
    assert len(set(answer)) > 20
    assert bytes(answer).decode().isalpha()


def test_a_row_says_the_same_whatever_is_beside_it() -> None:
    model = mock()
    logits = model.forward(decode_step([65, 66, 67], [4, 9, 2])).logits
    together = model.sample(logits, [sample_row(5), sample_row(10), sample_row(3)])
    logits, likeliest = model.forward(decode_step([66], [9]))
    assert together[1] == model.sample(logits, [sample_row(10)])[0] == likeliest[0]


def test_a_bias_can_ask_for_the_end() -> None:
    assert generate(mock(), ord("a"), 1, logit_bias=((EOS_ID, 100.0),)) == [EOS_ID]


def test_a_grammar_is_kept_to() -> None:
    model = mock()
    allowed = np.zeros((VOCAB_SIZE + 31) // 32, np.int32)
    allowed[ord("z") // 32] = 1 << (ord("z") % 32)
    row = SampleRow(params=SamplingParams(temperature=0.0, seed=1), position=1, allowed=allowed)
    assert model.sample(model.forward(decode_step([65], [0])).logits, [row]).tolist() == [ord("z")]


def test_each_step_takes_the_time_it_was_given() -> None:
    slept: list[float] = []
    model = MockModel(ByteTokenizer(), vocab_size=VOCAB_SIZE, step_s=0.02, sleep=slept.append)
    warm_up(model, num_tokens=4)
    assert slept == [0.02, 0.02]
