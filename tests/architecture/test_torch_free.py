"""Only the scheduler's processes pay for torch: three seconds and two hundred megabytes each."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# OpenTelemetry is for those who want traces: nobody else has to have it.
LIST_HEAVY_MODULES = (
    "import sys; print(sorted({'torch', 'transformers', 'opentelemetry.sdk'} & set(sys.modules)))"
)


@pytest.mark.parametrize(
    "module",
    [
        "launch_server",
        "managers.data_parallel_controller",
        "managers.engine",
        "managers.launcher",
        "managers.tokenizer_manager",
        "managers.detokenizer_manager",
        "srt.entrypoints.http_server",
        "srt.observability.logging",
        "srt.server_args.checks",
        "srt.server_args.cli",
        "srt.util.network",
    ],
)
def test_a_process_without_a_model_loads_no_torch(module: str) -> None:
    code = f"import {module}; {LIST_HEAVY_MODULES}"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (found.stdout.strip(), found.returncode) == ("[]", 0), found.stderr
