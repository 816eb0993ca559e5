"""A completion that runs: its generation, and what must be known of its prompts to tell its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from srt.engine_client import ChatPrompt, EngineClient, GenerateRequest, Generation, TextPrompt, TokenPrompt
from srt.entrypoints.openai.logprobs import CompletionLogprobs, to_completion_logprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens, TokenBytes, TokenRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCompletion:
    """`echoes` holds the text of each prompt, or nothing; `n` choices share one."""

    generation: Generation
    n: int
    num_choices: int
    echoes: Sequence[str]
    has_logprobs: bool
    token_bytes: TokenBytes
    text_bytes: TokenBytes  # the same, but special tokens that are left out of the text are nothing

    def echo(self, index: int) -> str:
        """What a choice's text begins with."""
        return self.echoes[index // self.n] if self.echoes else ""

    def token_release(self, index: int) -> TokenRelease:
        """For one choice. It lists the stop token, too: scores of prompts are read off by counting from the end."""
        return TokenRelease(self.text_bytes, start=len(self.echo(index)), keeps_stop_token=True)

    def to_logprobs(self, released: ReleasedTokens) -> CompletionLogprobs:
        """In OpenAI's shape."""
        return to_completion_logprobs(released, self.token_bytes)


async def start_completion(
    client: EngineClient, request: GenerateRequest, *, echo: bool
) -> RunningCompletion:
    """Dispatch it. Raises RequestError, and then nothing runs."""
    echoes = await _echoes(client, request) if echo else []
    generation = await client.generate(request)
    n = request.sampling[0].n
    return RunningCompletion(
        generation=generation,
        n=n,
        num_choices=len(request.prompts) * n,
        echoes=echoes,
        has_logprobs=bool(request.logprobs),
        token_bytes=client.token_bytes,
        text_bytes=partial(client.token_bytes, skip_special_tokens=request.sampling[0].skip_special_tokens),
    )


async def _echoes(client: EngineClient, request: GenerateRequest) -> list[str]:
    """The prompts as text."""
    echoes = []
    for prompt, sampling in zip(request.prompts, request.sampling, strict=True):
        match prompt:
            case TextPrompt(text):
                echoes.append(text)
            case TokenPrompt(token_ids):
                skip = sampling.skip_special_tokens
                echoes.append(await client.detokenize(token_ids, skip_special_tokens=skip))
            case ChatPrompt():
                raise AssertionError("a completion has no chat prompt")
    return echoes
