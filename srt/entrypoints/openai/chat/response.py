"""A chat's choices to the response that tells them whole."""

from collections.abc import Sequence

import msgspec

from srt.entrypoints.choices import Choice
from srt.entrypoints.openai.chat.answer import Answer
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.protocol import (
    AnswerCall,
    AnswerFunction,
    AnswerMessage,
    ChatChoice,
    ChatRequest,
    ChatResponse,
)
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.logprobs import ChatLogprobs, to_chat_logprobs
from srt.entrypoints.openai.released_tokens import TokenRelease
from srt.entrypoints.openai.usage import count_usage


def to_chat_response(
    chat: RunningChat, choices: Sequence[Choice], body: ChatRequest, *, created: int, model: str
) -> ChatResponse:
    """All choices, and what they cost."""
    answers = [chat.read_whole(choice) for choice in choices]
    reasoning_tokens = sum(answer.num_reasoning_tokens for answer in answers)
    return ChatResponse(
        id=chat.generation.request_id,
        created=created,
        model=model,
        choices=[
            _to_choice(chat, choice, answer, body) for choice, answer in zip(choices, answers, strict=True)
        ],
        usage=count_usage(
            (choice.last for choice in choices),
            n=chat.n,
            num_reasoning_tokens=None if chat.plan.reasoning is None else reasoning_tokens,
        ),
    )


def _to_choice(chat: RunningChat, choice: Choice, answer: Answer, body: ChatRequest) -> ChatChoice:
    (prompt_token_ids,) = chat.generation.prompt_token_ids
    return ChatChoice(
        index=choice.last.index,
        message=_to_message(answer),
        logprobs=_to_logprobs(chat, choice) if chat.has_logprobs else None,
        finish_reason=answer.finish_type,
        matched_stop=choice.finish.matched,
        prompt_token_ids=list(prompt_token_ids) if body.wants_prompt_ids else msgspec.UNSET,
        response_token_ids=choice.token_ids if body.return_token_ids else msgspec.UNSET,
    )


def _to_message(answer: Answer) -> AnswerMessage:
    call_ids = CallIds()
    calls = [
        AnswerCall(
            id=call_ids.next(call.id), function=AnswerFunction(name=call.name, arguments=call.arguments)
        )
        for call in answer.calls
    ]
    return AnswerMessage(
        content=answer.content,
        reasoning_content=msgspec.UNSET if answer.reasoning is None else answer.reasoning,
        tool_calls=calls or msgspec.UNSET,
    )


def _to_logprobs(chat: RunningChat, choice: Choice) -> ChatLogprobs:
    return to_chat_logprobs(TokenRelease(chat.text_bytes).add(choice.merged), chat.token_bytes)
