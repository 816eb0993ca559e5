"""Whole answers, for a client that wants no stream."""

from dataclasses import dataclass, field

import msgspec

from srt.engine_client import FinishReason, GenerateChunk, Generation, Logprobs


@dataclass(slots=True)
class Choice:
    """One choice of a request, put together out of its chunks."""

    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    last_chunk: GenerateChunk | None = None
    logprobs: Logprobs | None = None  # of `token_ids`, one for one, if they were asked for
    prompt_logprobs: Logprobs | None = None

    def add(self, chunk: GenerateChunk) -> None:
        """Take the next chunk."""
        if chunk.logprobs is not None:
            if self.logprobs is None:
                self.logprobs = Logprobs()
            self.logprobs.extend(chunk.logprobs)
        if chunk.prompt_logprobs is not None:
            self.prompt_logprobs = chunk.prompt_logprobs
        self.texts.append(chunk.text)
        self.token_ids += chunk.token_ids
        self.last_chunk = chunk

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self.texts)

    @property
    def last(self) -> GenerateChunk:
        """The last chunk, which holds the counts."""
        assert self.last_chunk is not None, "a choice without a chunk"
        return self.last_chunk

    @property
    def merged(self) -> GenerateChunk:
        """All chunks as if they had come as one."""
        return msgspec.structs.replace(
            self.last,
            text=self.text,
            token_ids=self.token_ids,
            logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs,
        )

    @property
    def finish(self) -> FinishReason:
        """Why it ended."""
        assert self.last.finish is not None, f"choice {self.last.index} has not finished"
        return self.last.finish


async def collect_choices(generation: Generation, num_choices: int) -> list[Choice]:
    """All choices in the order of their index; aborts the generation if this ends early for whatever reason."""
    choices = [Choice() for _ in range(num_choices)]
    is_finished = False
    try:
        async for chunks in generation:
            for chunk in chunks:
                choices[chunk.index].add(chunk)
        is_finished = True
        return choices
    finally:
        if not is_finished:
            generation.abort()
