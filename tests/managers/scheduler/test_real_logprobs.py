"""Log-probabilities of real models in float32, through the scheduler, against transformers."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers

from srt.configs.checkpoint import find_model
from srt.configs.load import load_model_config
from srt.distributed.rank import RankInfo
from srt.engine_client import LogprobOptions, Logprobs
from srt.forward_batch import Runner
from srt.model_loader.load import load_weights
from srt.models.llama import CausalModel
from srt.sampling.params import SamplingParams
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.fakes.real_runner import load_runner
from tests.fakes.tiny_checkpoint import make_tiny_model, write_tiny_checkpoint
from tests.managers.scheduler.world import Heard, World, greedy

TINY_VOCAB_SIZE = 131
PROMPT = [(7 * i * i + 3 * i + 5) % TINY_VOCAB_SIZE for i in range(40)]
ASKED = (3, 88)


@dataclass(frozen=True)
class Pair:
    """A model served by us, and the same model in transformers."""

    runner: Runner
    reference: transformers.PreTrainedModel
    tolerance: float

    def world(self, **settings: object) -> World:
        # No end-of-text token: answers are as long as asked.
        return World(
            real_runner=self.runner,
            vocab_size=self.runner.vocab_size,
            eos_token_ids=(),
            capacity=900,
            **settings,
        )

    def check(self, heard: Heard, prompt_ids: list[int], options: LogprobOptions) -> None:
        """Everything told of a prompt and its answer is what transformers says."""
        with torch.inference_mode():
            logits = self.reference(torch.tensor([prompt_ids + heard.token_ids])).logits[0]
        expected = torch.log_softmax(logits.double(), dim=1)
        told = [(heard.logprobs, len(prompt_ids), heard.token_ids)]
        if options.prompt_start is not None:
            told.append((heard.prompt_logprobs, options.prompt_start, prompt_ids[options.prompt_start :]))
        for logprobs, start, token_ids in told:
            assert logprobs is not None
            assert logprobs.token_ids == token_ids
            self._check_values(logprobs, start, expected, options)

    def _check_values(
        self, told: Logprobs, start: int, expected: torch.Tensor, options: LogprobOptions
    ) -> None:
        for i, (token_id, logprob) in enumerate(zip(told.token_ids, told.logprobs, strict=True)):
            if start + i == 0:
                assert (logprob, told.top[i], told.asked[i]) == (None, [], [])
                continue
            row = expected[start + i - 1]
            best = row.topk(options.num_top).values.tolist()
            assert logprob == pytest.approx(float(row[token_id]), abs=self.tolerance)
            assert [value for _, value in told.top[i]] == pytest.approx(best, abs=self.tolerance)
            assert [float(row[j]) for j, _ in told.top[i]] == pytest.approx(best, abs=self.tolerance)
            assert told.asked[i] == pytest.approx(row[list(options.token_ids)].tolist(), abs=self.tolerance)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = tmp_path_factory.mktemp("model")
    write_tiny_checkpoint(folder, "LlamaForCausalLM")
    return Pair(load_runner(folder, page_size=4), make_tiny_model("LlamaForCausalLM"), 1e-4)


@pytest.mark.parametrize("chunk_size", [7, 1000])
@pytest.mark.parametrize("start", [None, 0, 1, 21, 40])
def test_prompt_and_answer_are_told_as_transformers_does_with_and_without_cache(
    tiny: Pair, chunk_size: int, start: int | None
) -> None:
    world = tiny.world(page_size=4, chunk_size=chunk_size)
    options = LogprobOptions(prompt_start=start, num_top=5, token_ids=ASKED)
    for num_cached in (0, (38 if start is None else max(start - 1, 0)) // 4 * 4):
        request_id = world.add(PROMPT, greedy(5), logprobs=options)
        world.run()
        assert world.finish(request_id).cached_tokens == num_cached
        tiny.check(world.heard[request_id], PROMPT, options)


def test_in_a_mixed_batch_too_whatever_bends_the_answers(tiny: Pair) -> None:
    world = tiny.world(page_size=4, chunk_size=16, overlaps=True)
    options = LogprobOptions(prompt_start=0, num_top=2)
    sampling = SamplingParams(
        max_new_tokens=12,
        temperature=1.7,
        top_k=30,
        frequency_penalty=1.0,
        repetition_penalty=1.3,
        logit_bias=((7, 4.0),),
        seed=1,
    )
    prompts = [PROMPT[i:] for i in range(0, 30, 6)]
    ids = []
    for prompt in prompts:
        ids.append(world.add(prompt, sampling, logprobs=options))
        world.add(prompt[::-1], sampling)
        world.step()
    world.run()
    for request_id, prompt in zip(ids, prompts, strict=True):
        tiny.check(world.heard[request_id], prompt, options)


def default_model() -> transformers.PreTrainedModel:
    """The weights of our GGUF file in transformers, whose own reader of such files wants another package."""
    config = load_model_config(find_model(None))
    weights = load_weights(
        CausalModel.slices(config, RankInfo(0, 1)),
        config=config,
        load_format="auto",
        seed=0,
        dtype=torch.float32,
        device="cpu",
    )
    reference = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope.theta},
            tie_word_embeddings=config.tie_word_embeddings,
        )
    )
    missing = reference.load_state_dict(weights, strict=False).missing_keys
    assert missing == (["lm_head.weight"] if config.tie_word_embeddings else [])
    reference.tie_weights()
    return reference.eval()


@pytest.mark.slow
def test_the_default_model_is_told_as_transformers_does() -> None:
    path = find_model(None)
    pair = Pair(load_runner(path, context_length=1000), default_model(), 1e-3)
    text = "The capital of France is Paris, and the one of Spain is Madrid. " * 4
    prompt_ids = load_tokenizer(prepare_tokenizer(path)).encode(text)
    world = pair.world(chunk_size=20)
    for start, num_cached in ((0, 0), (30, 29)):
        options = LogprobOptions(prompt_start=start, num_top=5, token_ids=ASKED)
        request_id = world.add(prompt_ids, greedy(8), logprobs=options)
        world.run()
        pair.check(world.heard[request_id], prompt_ids, options)
        assert world.finish(request_id).cached_tokens == num_cached
