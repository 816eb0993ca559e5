"""`AnswerRuns`: an answer as runs of one kind each, for APIs whose answers are a row of blocks or items.

A run is thoughts, text, or one call. Where a parser reads the answer, white space between thoughts and calls is no run,
and at the end of none: models put line breaks between their calls.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.answer import AnswerReader, FinishType
from srt.parsers.answer import AnswerPart, CallArguments, CallBegin, Content, Reasoning

RunKind = type[Content] | type[Reasoning] | type[CallBegin]


@dataclass(frozen=True, slots=True)
class RunBegin:
    """A run begins, and the one before it is complete. `call` tells who is called, if it is a call."""

    kind: RunKind
    call: CallBegin | None = None


@dataclass(frozen=True, slots=True)
class RunText:
    """More of the run: of the text, the thoughts, or the JSON of the arguments."""

    text: str


@dataclass(slots=True)
class Run:
    """A whole one."""

    begin: RunBegin
    text: str = ""


class AnswerRuns:
    """Reads one choice through its reader. The same runs, however the chunks are cut."""

    def __init__(self, reader: AnswerReader, *, is_plain: bool) -> None:
        self._reader = reader
        self._is_plain = is_plain
        self._open: RunKind | None = None
        self._held_space = ""  # belongs to a text only if more text follows

    @property
    def num_reasoning_tokens(self) -> int:
        """So far."""
        return self._reader.num_reasoning_tokens

    def finish_type(self, finish: FinishReason) -> FinishType:
        """Why the answer ended, when all of it is read."""
        return self._reader.finish_type(finish)

    def read(self, chunk: GenerateChunk) -> list[RunBegin | RunText]:
        """What this chunk adds."""
        steps: list[RunBegin | RunText] = []
        for part in self._reader.read(chunk):
            self._add(part, steps)
        return steps

    def read_whole(self, chunk: GenerateChunk) -> list[Run]:
        """All runs of an answer that came as one chunk."""
        return _join(self.read(chunk))

    def _add(self, part: AnswerPart, steps: list[RunBegin | RunText]) -> None:
        match part:
            case Content(text):
                if not self._is_plain and self._open is not Content and (self._held_space + text).isspace():
                    self._held_space += text
                    return
                self._begin(Content, steps)
                steps.append(RunText(self._held_space + text))
                self._held_space = ""
            case Reasoning(text):
                self._held_space = ""
                self._begin(Reasoning, steps)
                steps.append(RunText(text))
            case CallBegin():
                self._held_space = ""
                self._open = CallBegin
                steps.append(RunBegin(CallBegin, part))
            case CallArguments(text=text):
                steps.append(RunText(text))

    def _begin(self, kind: RunKind, steps: list[RunBegin | RunText]) -> None:
        if self._open is not kind:
            self._open = kind
            steps.append(RunBegin(kind))


def _join(steps: Iterable[RunBegin | RunText]) -> list[Run]:
    runs: list[Run] = []
    texts: list[list[str]] = []
    for step in steps:
        match step:
            case RunBegin():
                runs.append(Run(step))
                texts.append([])
            case RunText(text):
                texts[-1].append(text)
    for run, pieces in zip(runs, texts, strict=True):
        run.text = "".join(pieces)
    return runs
