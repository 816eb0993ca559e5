import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from srt.entrypoints.read_watch import ReadWatch
from srt.util.patience import GRACE_S


class HandMovedLoop:
    """As much of a loop as a watch needs; `advance` runs the timers that are due, and reads nothing meanwhile."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self._now

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> "Timer":
        timer = (self._now + delay_s, call, arguments)
        self._timers.append(timer)
        return Timer(lambda: self._timers.remove(timer))

    def advance(self, seconds: float) -> None:
        self._now += seconds
        due = [timer for timer in self._timers if timer[0] <= self._now]
        for timer in due:
            self._timers.remove(timer)
            timer[1](*timer[2])


class Timer:
    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel


@pytest.fixture
def loop() -> HandMovedLoop:
    return HandMovedLoop()


@pytest.fixture
def late() -> list[float]:
    return []


@pytest.fixture
def watch(loop: HandMovedLoop, late: list[float]) -> ReadWatch:
    return ReadWatch(cast(asyncio.AbstractEventLoop, loop), 5.0, lambda: late.append(loop.time()))


def test_what_does_not_come_is_late(watch: ReadWatch, loop: HandMovedLoop, late: list[float]) -> None:
    watch.expect_more(anew=False)
    loop.advance(5.0)
    loop.advance(GRACE_S)
    assert late == [5.0 + GRACE_S]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_process_that_stood_still_reads_what_has_come_before_it_judges(
    watch: ReadWatch, loop: HandMovedLoop, late: list[float], is_whole: bool
) -> None:
    watch.expect_more(anew=True)
    loop.advance(60.0)
    if is_whole:
        watch.stop()
    else:
        watch.expect_more(anew=True)
    loop.advance(GRACE_S)
    loop.advance(4.0)
    assert late == []


def test_pieces_of_a_head_do_not_put_its_end_off(
    watch: ReadWatch, loop: HandMovedLoop, late: list[float]
) -> None:
    for _ in range(5):
        watch.expect_more(anew=False)
        loop.advance(1.0)
    watch.expect_more(anew=False)
    loop.advance(GRACE_S)
    assert late
