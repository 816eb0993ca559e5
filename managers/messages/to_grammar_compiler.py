"""What the grammar compiler's socket carries: grammars to compile, and those that nobody waits for any more."""

from managers.messages.base import Message
from srt.constrained.grammar_spec import GrammarKind


class CompileGrammar(Message, frozen=True):
    """Answered by one GrammarCompiled. No front ever uses a `job_id` of another."""

    job_id: int
    kind: GrammarKind
    text: str


class CancelCompile(Message, frozen=True):
    """Whoever wanted it has left. There is no answer then, or it is on its way already."""

    job_id: int


GrammarCompilerInput = CompileGrammar | CancelCompile
