"""`RequestIntake`: a message to a Request, or the reason why not.

The front checks requests before they get here; what is checked again is what would hurt others: ids that no
embedding has, sequences that no memory holds.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from managers.messages import RequestId, TokenizedRequest
from managers.scheduler.finish import Finish, FinishRules, refused
from managers.scheduler.grammars import Grammars
from managers.scheduler.logprob_keeper import LogprobKeeper
from managers.scheduler.priorities import PriorityRules
from managers.scheduler.request import PROBE_URGENCY, Request, tail_of
from managers.scheduler.seen_tokens import SeenTokens
from managers.scheduler.siblings import prefix_key
from managers.scheduler.stop_strings import StopStrings
from srt.errors import InvalidRequest
from srt.tokenizer.tokenizer import Tokenizer


class RequestIntake:
    """Numbers the requests by arrival. `length_limit` holds for prompt and answer together."""

    def __init__(
        self,
        *,
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        length_limit: int,
        shares_prefixes: bool,
        priorities: PriorityRules,
        tokenizer: Tokenizer,
        grammars: Grammars,
    ) -> None:
        self._grammars = grammars
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._length_limit = length_limit
        self._shares_prefixes = shares_prefixes
        self._priorities = priorities
        self._tokenizer = tokenizer
        self._num_arrived = 0

    def accept(self, message: TokenizedRequest, live: Mapping[RequestId, Request]) -> Request | Finish:
        """The request, to be queued; or, for one that can never be served, its end."""
        if len(message.input_ids) % 4:
            return refused("the prompt is not a sequence of token ids")
        prompt_ids = np.frombuffer(message.input_ids, np.int32)
        if self._priorities.refuses(message.priority):
            return refused("this server was started without priorities: leave out `priority`", 503)
        problem = self._problem(message, prompt_ids)
        if problem is not None:
            return refused(problem)
        sampling = message.sampling
        max_new_tokens = sampling.max_new_tokens
        if max_new_tokens is None:
            max_new_tokens = self._length_limit - len(prompt_ids)
        has_grammar = message.grammar is not None
        rules = FinishRules.of(
            sampling, max_new_tokens, self._eos_token_ids, self._vocab_size, has_grammar=has_grammar
        )
        banned_ids = rules.banned_ids()
        grammar = None if message.grammar is None else self._grammars.begin(message.grammar, rules)
        if isinstance(grammar, Finish):
            return grammar
        self._num_arrived += 1
        shares_prefix = self._shares_prefixes and not message.is_probe  # else it might wait for another's
        return Request(
            id=message.request_id,
            arrival=self._num_arrived,
            prompt_ids=prompt_ids,
            sampling=sampling,
            rules=rules,
            stream=message.stream,
            namespace=message.namespace,
            priority=self._priorities.level(message.priority),
            urgency=PROBE_URGENCY if message.is_probe else self._priorities.urgency(message.priority),
            prefix_key=prefix_key(prompt_ids, message.namespace) if shares_prefix else None,
            leader=self._leader(message, live),
            seen_tokens=SeenTokens(prompt_ids) if sampling.has_penalties else None,
            stop_strings=self._stop_strings(message, prompt_ids) if sampling.stop else None,
            banned_ids=banned_ids,
            grammar=grammar,
            is_greedy=banned_ids is None and _takes_the_likeliest(message),
            logprobs=None if message.logprobs is None else LogprobKeeper(message.logprobs, prompt_ids),
            is_probe=message.is_probe,
        )

    def _leader(self, message: TokenizedRequest, live: Mapping[RequestId, Request]) -> Request | None:
        # A leader must have arrived before its followers, so waiting for it cannot go in circles.
        if message.group_leader is None or not self._shares_prefixes:
            return None
        if message.logprobs is not None and message.logprobs.prompt_start is not None:
            return None  # it computes most of the prompt in any case
        return live.get(message.group_leader)

    def _problem(self, message: TokenizedRequest, prompt_ids: npt.NDArray[np.int32]) -> str | None:
        if len(prompt_ids) == 0:
            return "the prompt is empty"
        if prompt_ids.min() < 0 or prompt_ids.max() >= self._vocab_size:
            return f"token ids must be between 0 and {self._vocab_size - 1}"
        try:
            message.sampling.check_token_ids(self._vocab_size)
            if message.logprobs is not None:
                message.logprobs.check(prompt_len=len(prompt_ids), vocab_size=self._vocab_size)
        except InvalidRequest as error:
            return error.message
        num_tokens = len(prompt_ids) + (message.sampling.max_new_tokens or 0)
        if len(prompt_ids) >= self._length_limit or num_tokens > self._length_limit:
            return f"prompt and answer may be {self._length_limit} tokens together, these are {num_tokens}"
        return None

    def _stop_strings(self, message: TokenizedRequest, prompt_ids: npt.NDArray[np.int32]) -> StopStrings:
        return StopStrings(
            message.sampling.stop,
            self._tokenizer,
            tail_of(prompt_ids),
            skip_special_tokens=message.sampling.skip_special_tokens,
        )


def _takes_the_likeliest(message: TokenizedRequest) -> bool:
    sampling = message.sampling
    is_bent = sampling.has_penalties or bool(sampling.logit_bias)
    return sampling.is_greedy and not is_bent and message.grammar is None and message.logprobs is None
