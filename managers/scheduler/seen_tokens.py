"""`SeenTokens`: what one request's penalties must know, kept only for requests that asked for penalties.

Grows with the distinct tokens of one request, not with the vocabulary, and lives as long as the request: a
retraction changes nothing here.
"""

import numpy as np
import numpy.typing as npt


class SeenTokens:
    """The distinct tokens of prompt and output, and how often each occurs in the output."""

    def __init__(self, prompt_ids: npt.NDArray[np.int32]) -> None:
        distinct = np.unique(prompt_ids)
        self._num_seen = len(distinct)
        self._ids = np.empty(self._num_seen + 64, np.int64)
        self._ids[: self._num_seen] = distinct
        self._output_counts = np.zeros(len(self._ids), np.int64)
        self._place_of_id = {token_id: place for place, token_id in enumerate(distinct.tolist())}

    def add(self, token_id: int) -> None:
        """One more output token."""
        place = self._place_of_id.get(token_id)
        if place is None:
            place = self._num_seen
            if place == len(self._ids):
                self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
                self._output_counts = np.concatenate(
                    [self._output_counts, np.zeros_like(self._output_counts)]
                )
            self._place_of_id[token_id] = place
            self._ids[place] = token_id
            self._num_seen += 1
        self._output_counts[place] += 1

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """Distinct ids in order of appearance; a view, valid until the next `add`."""
        return self._ids[: self._num_seen]

    @property
    def output_counts(self) -> npt.NDArray[np.int64]:
        """How often each of `ids` occurs in the output; a view, valid until the next `add`."""
        return self._output_counts[: self._num_seen]
