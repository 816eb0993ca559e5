"""In a process of its own: what is asked of the C library cannot be taken back."""

import subprocess
import sys

import pytest

from srt.util.freed_memory import BUSY_S, IDLE_S, FreedMemory

SCRIPT = """
import resource
import numpy as np
from srt.util.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(64 * 2**20, np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

np.empty(1)
faults()
given_back = faults()
assert keep_freed_memory()
faults()
print(given_back, faults())
"""


def test_large_pieces_are_not_new_pages_every_time() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    given_back, kept = map(int, done.stdout.split())
    assert given_back > 10  # huge pages, perhaps
    assert kept < given_back / 5


GAPS = """
import numpy as np
from srt.util.freed_memory import give_back_freed_memory, keep_freed_memory

def own_kib():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous"))

assert keep_freed_memory()
pieces = [np.ones(200_000 if i % 2 else 2_000, np.uint8) for i in range(400)]
with_all = own_kib()
pieces = pieces[::2]
kept = own_kib()
give_back_freed_memory()
print(with_all - kept, kept - own_kib())
"""


def test_gaps_between_what_is_in_use_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", GAPS], capture_output=True, text=True, check=True)
    at_once, when_asked = map(int, done.stdout.split())
    assert at_once < 1_000
    assert when_asked > 30_000


class Clock:
    """Stands until told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("is_idle", "times"), [(True, [IDLE_S]), (False, [BUSY_S, 2 * BUSY_S])])
def test_it_is_given_back_once_when_nothing_is_done_and_now_and_then_under_load(
    is_idle: bool, times: list[float]
) -> None:
    clock, given_back = Clock(), list[float]()
    freed = FreedMemory(lambda: given_back.append(clock.now), clock)
    for second in range(int(2 * BUSY_S) + 2):
        clock.now = float(second)
        freed.turn(is_idle=is_idle)
    assert given_back == times


def test_every_time_of_rest_counts() -> None:
    clock, given_back = Clock(), list[float]()
    freed = FreedMemory(lambda: given_back.append(clock.now), clock)
    for second in range(1_000):
        clock.now = float(second)
        freed.turn(is_idle=second not in (10, 100, 130, 900))
    assert given_back == [10 + IDLE_S, 130 + IDLE_S, 900 + IDLE_S]
