"""`ReasoningFormat`: between which markers a family of models thinks aloud, and whether an answer starts inside."""

from dataclasses import dataclass
from functools import cached_property

from srt.parsers.markers import Markers


@dataclass(frozen=True, kw_only=True)
class ReasoningFormat:
    """One format. A model that `always_thinks` starts inside, even if neither prompt nor answer says so."""

    name: str
    begin: str
    end: str
    always_thinks: bool = False

    @cached_property
    def end_markers(self) -> Markers:
        """The end marker, to be looked for."""
        return Markers((self.end,))

    def starts_inside(self, prompt_end: str) -> bool:
        """Whether an answer to a prompt that ends like this starts with reasoning, without a begin marker.

        Templates that switch thinking on write the begin marker, those that switch it off both or the end marker.
        The last hundred characters of the prompt are enough.
        """
        written = prompt_end.rstrip()
        if written.endswith(self.end):
            return False
        return self.always_thinks or written.endswith(self.begin)

    def is_switched_off(self, prompt_end: str) -> bool:
        """Whether the prompt itself has ended the reasoning: the answer has none."""
        return prompt_end.rstrip().endswith(self.end)
