"""A chat that runs: its generation, and readers of its answers, which start where the prompt ended.

No HTTP here: `plan_chat`, `start_chat`, then chunks or whole choices through readers is all that another API needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from srt.engine_client import EngineClient, GenerateRequest, Generation, TextPrompt, TokenPrompt
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.openai.chat.answer import Answer, AnswerPlan, AnswerReader
from srt.entrypoints.openai.chat.prompt import ChatPlan
from srt.entrypoints.openai.released_tokens import TokenBytes
from srt.parsers.reasoning.format import ReasoningFormat

# Of a prompt's end, so many tokens hold any marker that a template writes there.
NUM_LAST_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningChat:
    """One request's answers to come. Whoever stops reading early calls `generation.abort()`."""

    generation: Generation
    n: int
    plan: AnswerPlan
    has_logprobs: bool
    starts_in_reasoning: bool
    token_bytes: TokenBytes
    text_bytes: TokenBytes  # the same, but special tokens that are left out of the text are nothing

    def reader(self) -> AnswerReader:
        """For one choice."""
        return AnswerReader(self.plan, self.token_bytes, starts_in_reasoning=self.starts_in_reasoning)

    async def collect(self) -> list[Choice]:
        """All choices, whole. Aborts the generation if this ends early for whatever reason."""
        return await collect_choices(self.generation, self.n)

    def read_whole(self, choice: Choice) -> Answer:
        """A choice that has finished."""
        return self.reader().read_whole(choice)


async def start_chat(client: EngineClient, plan: ChatPlan) -> RunningChat:
    """Dispatch it. Raises RequestError, and then nothing runs."""
    reasoning = plan.answers.reasoning
    request = plan.request
    if reasoning is not None and request.grammars:
        complete = partial(_behind_reasoning, client, plan, reasoning)
        request = msgspec.structs.replace(request, complete=complete)
    generation = await client.generate(request)
    # Nothing is awaited from here on: nobody would abort what runs.
    (prompt_token_ids,) = generation.prompt_token_ids
    (sampling,) = request.sampling
    return RunningChat(
        generation=generation,
        n=sampling.n,
        plan=plan.answers,
        has_logprobs=bool(request.logprobs),
        starts_in_reasoning=reasoning is not None
        and _starts_inside(plan, reasoning, _end_of_prompt(client, prompt_token_ids)),
        token_bytes=client.token_bytes,
        text_bytes=partial(client.token_bytes, skip_special_tokens=sampling.skip_special_tokens),
    )


async def _behind_reasoning(
    client: EngineClient, plan: ChatPlan, reasoning: ReasoningFormat, request: GenerateRequest
) -> GenerateRequest:
    """The request with its grammar where the reasoning ends, which depends on how the prompt does.

    A model that decides for itself whether to think is made to: otherwise nothing would begin the grammar, and an
    answer without reasoning would be without form, too.
    """
    (prompt,) = request.prompts
    token_ids = await client.tokenize(prompt)
    end = _end_of_prompt(client, token_ids)
    is_answered_directly = plan.continued_text is not None or not plan.has_generation_prompt
    if _starts_inside(plan, reasoning, end):
        begins_after = reasoning.end
    elif is_answered_directly or reasoning.is_switched_off(end):
        begins_after = None
    else:
        begins_after = reasoning.end
        begin = TextPrompt(reasoning.begin + "\n")
        token_ids = [*token_ids, *await client.tokenize(begin, add_special_tokens=False)]
    return msgspec.structs.replace(
        request,
        prompts=(TokenPrompt(token_ids),),
        grammars=[
            grammar and msgspec.structs.replace(grammar, begins_after=begins_after)
            for grammar in request.grammars
        ],
    )


def _starts_inside(plan: ChatPlan, reasoning: ReasoningFormat, prompt_end: str) -> bool:
    """Whether the answer starts with reasoning. A text that is gone on with says so itself."""
    if plan.continued_text is not None:
        text = plan.continued_text
        return text.rfind(reasoning.begin) > text.rfind(reasoning.end)
    return reasoning.starts_inside(prompt_end)


def _end_of_prompt(client: EngineClient, token_ids: Sequence[int]) -> str:
    return b"".join(map(client.token_bytes, token_ids[-NUM_LAST_TOKENS:])).decode(errors="replace")
