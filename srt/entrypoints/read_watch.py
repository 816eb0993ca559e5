"""`ReadWatch`: an end to the wait for the rest of a request. Costs nothing while requests come in one piece."""

import asyncio
from collections.abc import Callable

from srt.util.patience import GRACE_S


class ReadWatch:
    """Calls `on_late` when what is expected has not come within `timeout_s`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout_s: float, on_late: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._on_late = on_late
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def expect_more(self, *, anew: bool) -> None:
        """A part is missing. The time runs from the first of these calls, or with `anew` from this one."""
        if self._timer is None:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(self._timeout_s, self._look)
        elif anew:
            self._since = self._loop.time()

    def stop(self) -> None:
        """Nothing is missing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Nothing will be expected any more; whom it called is let go of."""
        self.stop()
        self._on_late = _never_late

    def _look(self, is_all_read: bool = False) -> None:
        self._timer = None
        rest_s = self._since + self._timeout_s - self._loop.time()
        if rest_s > 0:
            self._timer = self._loop.call_later(rest_s, self._look)
        elif not is_all_read:
            self._timer = self._loop.call_later(GRACE_S, self._look, True)
        else:
            self._on_late()


def _never_late() -> None:
    pass
