from pathlib import Path

import pytest

from managers.ipc import IpcAddresses
from managers.pulses import Pulse, PulseBoard
from managers.watchdog import OwnStandstill


@pytest.fixture
def addresses(tmp_path: Path) -> IpcAddresses:
    return IpcAddresses(str(tmp_path))


class Clock:
    """Seconds after a pulse's last beat."""

    def __init__(self, pulse: Pulse) -> None:
        pulse.beat()
        self.begun = pulse.last_beat or 0.0
        self.passed = 0.0

    def __call__(self) -> float:
        return self.begun + self.passed


def test_who_has_not_begun_or_is_not_expected_back_is_not_silent() -> None:
    new, resting = Pulse.private(), Pulse.private()
    resting.beat()
    resting.rest()
    assert PulseBoard({"new": new, "resting": resting}).silent(-1.0) == {}


def test_silence_is_longer_than_the_limit() -> None:
    pulse = Pulse.private()
    clock = Clock(pulse)
    board = PulseBoard({"a": pulse}, clock)
    clock.passed = 4.0
    assert board.silent(5.0) == {}
    clock.passed = 6.0
    assert board.silent(5.0) == {"a": pytest.approx(6.0)}


def test_what_was_while_nobody_listened_does_not_count() -> None:
    pulse = Pulse.private()
    clock = Clock(pulse)
    board = PulseBoard({"a": pulse}, clock)
    clock.passed = 60.0
    assert board.silent(5.0, heard_since=clock() - 1.0) == {}


def test_every_process_sees_the_same_moment(addresses: IpcAddresses) -> None:
    Pulse.shared(addresses, "a")
    board = PulseBoard.of_all(addresses, but_not=lambda name: False)
    assert board["a"].last_beat is None
    Pulse.shared(addresses, "a").beat()
    assert board.silent(-1.0).keys() == {"a"}


def test_the_dispensable_are_left_out(addresses: IpcAddresses) -> None:
    for name in ("a", "spare"):
        Pulse.shared(addresses, name).beat()
    assert PulseBoard.of_all(addresses, but_not=lambda name: name == "spare").silent(-1.0).keys() == {"a"}


def test_a_watchdog_that_stood_still_itself_knows_it() -> None:
    standstill = OwnStandstill(interval_s=1.0, now=100.0)
    standstill.look(101.0)
    assert standstill.ended_at == 0.0
    standstill.look(131.0)
    assert standstill.ended_at == 131.0
    standstill.look(132.1)
    assert standstill.ended_at == 131.0
