"""`Grammars`: the compiled grammars that this rank knows, by the number under which the front defined them.

They are read out of their bytes in a thread of their own from the moment they arrive, 15 ms for a MiB. Who comes to
need one waits for it; that costs time, and decides nothing. Rank 0 lets nobody in before (grammar_gate.py).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from managers.messages.to_scheduler import RequestGrammar
from managers.scheduler.finish import Finish, FinishRules, broken
from srt.constrained.answer_grammar import AnswerGrammar
from srt.constrained.grammar import CompiledGrammar, GrammarLoader, Vocabulary
from srt.constrained.reasoning_end import ReasoningEnd


class Grammars:
    """`make_loader` is called in the thread, with the first grammar; None: this server has no grammars.

    `token_text` also gives the text of special tokens: a marker may be one.
    """

    def __init__(
        self,
        make_loader: Callable[[], GrammarLoader] | None,
        *,
        vocab_size: int,
        token_text: Callable[[int], bytes],
    ) -> None:
        self._make_loader = make_loader
        self._num_words = Vocabulary(token_texts=(), size=vocab_size).num_words
        self._token_text = token_text
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammars")
        self._loader: GrammarLoader | None = None
        self._loaded: dict[int, Future[CompiledGrammar]] = {}

    def define(self, grammar_id: int, payload: bytes) -> None:
        """Begin to read it."""
        self._loaded[grammar_id] = self._thread.submit(self._load, payload)

    def is_read(self, grammar_id: int) -> bool:
        """Whether nobody who names it has to wait, for good or bad."""
        loaded = self._loaded.get(grammar_id)
        return loaded is None or loaded.done()

    def forget(self, grammar_id: int) -> None:
        """No request will name it any more. Those that did keep it."""
        self._loaded.pop(grammar_id, None)

    def begin(self, grammar: RequestGrammar, rules: FinishRules) -> AnswerGrammar | Finish:
        """For a new answer, or why there is none."""
        loaded = self._loaded.get(grammar.grammar_id)
        if loaded is None:
            return broken("the grammar of this request was never defined")
        marker = grammar.begins_after
        return AnswerGrammar(
            loaded.result,
            num_words=self._num_words,
            stop_token_ids=rules.stop_ids_in_vocabulary,
            reasoning_end=None if marker is None else ReasoningEnd(marker, self._token_text),
        )

    def _load(self, payload: bytes) -> CompiledGrammar:
        if self._make_loader is None:
            raise ValueError("this server was started without grammars")
        if self._loader is None:
            self._loader = self._make_loader()
        return self._loader.load(payload)
