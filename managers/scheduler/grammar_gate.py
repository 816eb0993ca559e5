"""`GrammarGate`: an inbox that lets a request in when its grammar has been read, so that no step waits for one.

Rank 0's alone. When a request arrives is part of the tick, so every rank sees the same; the others began to read the
grammar when rank 0 did, in the turn that brought it, and one that is slower waits for its own thread.
"""

from collections.abc import Callable, Sequence

from managers.messages import AbortRequest, DefineGrammar, ForgetGrammar, SchedulerInput, TokenizedRequest
from managers.scheduler.event_loop import Inbox

# How often it looks whether a grammar has been read while there is nothing else to do.
POLL_S = 0.002


class GrammarGate:
    """Around an inbox. `is_read` is asked about grammars whose definition it has let through in an earlier call."""

    def __init__(self, inbox: Inbox, is_read: Callable[[int], bool]) -> None:
        self._inbox = inbox
        self._is_read = is_read
        self._unread: set[int] = set()
        self._held: list[TokenizedRequest | ForgetGrammar] = []  # in their order

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        """What may be handled now, waiting up to `timeout_s` for the first of it."""
        while True:
            messages = self._let_out()
            is_patient = not messages and timeout_s > 0
            patience_s = min(timeout_s, POLL_S) if self._unread else timeout_s
            messages += self._let_in(self._inbox.receive(patience_s if is_patient else 0.0))
            if messages or not is_patient or patience_s == timeout_s:
                return messages
            timeout_s -= patience_s

    def _let_out(self) -> list[SchedulerInput]:
        """What has waited for grammars that have been read by now."""
        read = {grammar_id for grammar_id in self._unread if self._is_read(grammar_id)}
        if not read:
            return []
        self._unread -= read
        return self._take(lambda message: _grammar_of(message) in read)

    def _let_in(self, arrived: Sequence[SchedulerInput]) -> list[SchedulerInput]:
        messages: list[SchedulerInput] = []
        for message in arrived:
            match message:
                case DefineGrammar():
                    self._unread.add(message.grammar_id)
                case TokenizedRequest() | ForgetGrammar() if _grammar_of(message) in self._unread:
                    self._held.append(message)
                    continue
                case AbortRequest(request_ids=ids) if self._held:
                    # It must be known to be ended, with a last word of its own.
                    messages += self._take(
                        lambda held: isinstance(held, TokenizedRequest) and held.request_id in ids
                    )
            messages.append(message)
        return messages

    def _take(self, is_wanted: Callable[[TokenizedRequest | ForgetGrammar], bool]) -> list[SchedulerInput]:
        taken: list[SchedulerInput] = [message for message in self._held if is_wanted(message)]
        self._held = [message for message in self._held if not is_wanted(message)]
        return taken


def _grammar_of(message: TokenizedRequest | ForgetGrammar) -> int | None:
    if isinstance(message, ForgetGrammar):
        return message.grammar_id
    return None if message.grammar is None else message.grammar.grammar_id
