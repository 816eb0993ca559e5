"""`LogprobKeeper`: what one request wants to know of probabilities, what of it is known, and what is not yet sent.

The token at a position is told by the logits of the token before it. So the prompt's logprobs from `prompt_start`
on need logits of every position from `prompt_start` - 1 to the last but one, each computed once: what a step has
begun to tell is not told again, retracted or not.
"""

from managers.messages.base import RequestId
from managers.messages.to_detokenizer import RequestLogprobs
from mem_cache.prefix_cache import TokenIds
from srt.engine_client import LogprobOptions, Logprobs
from srt.sampling.logprobs import Found, Wanted


class LogprobKeeper:
    """One request's. Steps come in order; their results come later, in the same order."""

    __slots__ = ("_has_told_prompt", "_next", "_num_awaited", "_options", "_output", "_prompt", "_prompt_ids")

    def __init__(self, options: LogprobOptions, prompt_ids: TokenIds) -> None:
        self._options = options
        self._prompt_ids = prompt_ids
        self._output = Logprobs()
        self._prompt = Logprobs()
        start = options.prompt_start
        self._has_told_prompt = start is None
        # The first position of the prompt that no step has begun to tell.
        self._next = len(prompt_ids) if start is None else max(start, 1)
        self._num_awaited = 0
        if start == 0:
            self._prompt.token_ids.append(int(prompt_ids[0]))
            self._prompt.logprobs.append(None)
            self._prompt.top.append([])
            self._prompt.asked.append([])

    @property
    def num_skippable(self) -> int | None:
        """How many tokens need not be computed for its sake; None: all."""
        return None if self._next >= len(self._prompt_ids) else self._next - 1

    def begin_step(self, start: int, num_tokens: int) -> range:
        """A step computes [start, start + num_tokens): the positions of which it must read the logits."""
        positions = range(max(self._next - 1, start), min(start + num_tokens, len(self._prompt_ids) - 1))
        if not positions:
            return range(0)
        assert positions[0] == self._next - 1, f"a step from {start} on skips position {self._next}"
        self._next = positions[-1] + 2
        self._num_awaited += len(positions)
        return positions

    @property
    def is_awaiting(self) -> bool:
        """Whether steps in flight will tell more of the prompt."""
        return self._num_awaited > 0

    def wanted_after(self, position: int) -> Wanted:
        """What is wanted of the logits of a position of the prompt."""
        return self.wanted_of(int(self._prompt_ids[position + 1]))

    def wanted_of(self, token_id: int) -> Wanted:
        """What is wanted of the logits that gave `token_id`."""
        return Wanted(token_id, self._options.num_top, self._options.token_ids)

    def end_step(self, num_positions: int, found: list[Found]) -> None:
        """What a step has told of the positions that it began; nothing on a rank that does not talk."""
        self._num_awaited -= num_positions
        start = len(self._prompt.token_ids) + (self._options.prompt_start or 0)
        token_ids: list[int] = self._prompt_ids[start : start + len(found)].tolist()
        for token_id, values in zip(token_ids, found, strict=True):
            _append(self._prompt, token_id, values)

    def add_to_output(self, token_id: int, found: Found) -> None:
        """The next token of the answer."""
        _append(self._output, token_id, found)

    @property
    def has_prompt_to_tell(self) -> bool:
        """Whether all of the prompt is known, and nothing of it was sent."""
        num_wanted = len(self._prompt_ids) - (self._options.prompt_start or 0)
        return not self._has_told_prompt and len(self._prompt.token_ids) == num_wanted

    def take(self, request_id: RequestId) -> RequestLogprobs:
        """What is known and was not sent."""
        output, self._output = self._output, Logprobs()
        if not self.has_prompt_to_tell:
            return RequestLogprobs(request_id=request_id, output=output)
        self._has_told_prompt = True
        prompt, self._prompt = self._prompt, Logprobs()
        return RequestLogprobs(request_id=request_id, output=output, prompt=prompt)


def _append(logprobs: Logprobs, token_id: int, found: Found) -> None:
    logprobs.token_ids.append(token_id)
    logprobs.logprobs.append(found.logprob)
    logprobs.top.append(found.top)
    logprobs.asked.append(found.asked)
