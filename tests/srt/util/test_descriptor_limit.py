import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = (
    "import resource; from srt.util.descriptor_limit import raise_descriptor_limit;"
    "print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(("soft", "hard"), [(256, 512), (512, 512)])
def test_a_process_may_have_as_many_as_the_system_lets_it(soft: int, hard: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    told = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["512", "512", "512"]
