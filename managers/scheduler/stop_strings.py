"""`StopStrings`: watches one answer, token by token, for the strings that end it.

Runs on every rank, for requests with stop strings only, and decodes as the detokenizer does, so that both
count the same characters.
"""

from collections.abc import Sequence

from srt.tokenizer.stop_matcher import StopMatch, StopMatcher
from srt.tokenizer.tokenizer import Tokenizer


class StopStrings:
    """The text of one answer so far, as far as its stop strings need it. A retraction changes nothing here."""

    def __init__(
        self,
        stops: Sequence[str],
        tokenizer: Tokenizer,
        prompt_tail: Sequence[int],
        *,
        skip_special_tokens: bool,
    ) -> None:
        self._decoder = tokenizer.incremental_decoder(
            prompt_tail=prompt_tail, skip_special_tokens=skip_special_tokens
        )
        self._matcher = StopMatcher(stops)

    def push(self, token_id: int) -> StopMatch | None:
        """Take the next token; the stop string that it completed, if any."""
        return self._matcher.push(self._decoder.push(token_id))
