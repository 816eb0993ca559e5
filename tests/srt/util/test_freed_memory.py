"""In a process of its own: what is asked of the C library cannot be taken back."""

import subprocess
import sys

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
