"""Stacks of a process that cannot tell itself."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from managers.ipc import IpcAddresses
from managers.stack_dump import stacks_of

CODE = """
import threading
def waits_for_what_never_comes():
    print("here", flush=True)
    threading.Event().wait()
waits_for_what_never_comes()
"""


def test_py_spy_tells_where_a_stopped_process_stands() -> None:
    py_spy = Path(sys.executable).with_name("py-spy")
    addresses = IpcAddresses.create()
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            command = [py_spy, "dump", "--nonblocking", "--pid", str(child.pid)]
            tried = subprocess.run(command, capture_output=True, text=True, check=False)
            if tried.returncode:
                pytest.skip(f"this system lets nobody look into a process: {tried.stderr[-200:]}")
            os.kill(child.pid, signal.SIGSTOP)
            assert "waits_for_what_never_comes" in asyncio.run(stacks_of(addresses, "child", child.pid))
        finally:
            child.kill()
            addresses.remove()


def test_one_that_is_gone_is_said_to_be() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    addresses = IpcAddresses.create()
    assert asyncio.run(stacks_of(addresses, "child", child.pid)) == "it is gone"
    addresses.remove()
