"""`CompileChild`: one grammar, compiled in a process of its own, which may take long, eat memory or crash.

It is forked from one that has loaded everything, so it costs milliseconds, and whatever goes wrong in it is over when
it is.
"""

import faulthandler
import math
import os
import resource
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from managers.process import die_with_parent
from srt.constrained.grammar import GrammarCompiler
from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest

# The schedulers read it beside their steps: a hundred times a usual one.
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
# It must not take a core from those who answer.
NICENESS = 5
# Where others want the cores too, processor time is what counts; but a wait must end.
SECONDS_PER_CPU_SECOND = 4
_READ_BYTES = 1 << 20
_TOO_MUCH_MEMORY = "this grammar needs too much memory"


class CompileResult(msgspec.Struct, frozen=True, array_like=True):
    """The compiled grammar, or why there is none: a sentence for the client."""

    payload: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """What one grammar may cost: processor time, and memory beyond what the process has to begin with."""

    timeout_s: float
    memory_bytes: int


class CompileChild:
    """Runs from its construction on. `descriptor` becomes readable when there is something to `collect`."""

    def __init__(
        self, spec: GrammarSpec, compiler: GrammarCompiler, limits: CompileLimits, now: float
    ) -> None:
        self.give_up_at = now + limits.timeout_s * SECONDS_PER_CPU_SECOND
        self._limits = limits
        self._chunks: list[bytes] = []
        self.descriptor, theirs = os.pipe()
        parent_pid = os.getpid()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _run(spec, compiler, limits, theirs, parent_pid)
        os.close(theirs)

    def collect(self, now: float) -> CompileResult | None:
        """The result once there is one; None while it may still come. Asked until it is not None, and not after."""
        while select.select([self.descriptor], [], [], 0)[0]:
            chunk = os.read(self.descriptor, _READ_BYTES)
            if not chunk:
                return self._result()
            self._chunks.append(chunk)
        if now < self.give_up_at:
            return None
        self.kill()
        return self._too_slow

    def kill(self) -> None:
        """End it without a result."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.descriptor)

    @property
    def _too_slow(self) -> CompileResult:
        return CompileResult(error=f"compiling this grammar takes longer than {self._limits.timeout_s:g} s")

    def _result(self) -> CompileResult:
        os.close(self.descriptor)
        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) == signal.SIGXCPU:
                return self._too_slow
            name = signal.Signals(os.WTERMSIG(status)).name
            return CompileResult(error=f"this grammar crashes the compiler ({name})")
        try:
            return msgspec.msgpack.decode(b"".join(self._chunks), type=CompileResult)
        except msgspec.MsgspecError:
            return CompileResult(error=_TOO_MUCH_MEMORY)


def _run(
    spec: GrammarSpec, compiler: GrammarCompiler, limits: CompileLimits, descriptor: int, parent_pid: int
) -> None:
    """In the child: never returns."""
    exit_code = 1
    try:
        die_with_parent(parent_pid)
        faulthandler.disable()  # a crash is the client's to hear of
        os.nice(NICENESS)
        _limit(limits)
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(_compile(spec, compiler)))
        exit_code = 0
    finally:
        os._exit(exit_code)


def _compile(spec: GrammarSpec, compiler: GrammarCompiler) -> CompileResult:
    try:
        payload = compiler.compile(spec)
    except InvalidRequest as error:
        is_memory = "bad_alloc" in error.message
        return CompileResult(error=_TOO_MUCH_MEMORY if is_memory else error.message)
    except MemoryError:
        return CompileResult(error=_TOO_MUCH_MEMORY)
    if len(payload) > MAX_PAYLOAD_BYTES:
        return CompileResult(error=f"compiled, this grammar has more than {MAX_PAYLOAD_BYTES} bytes")
    return CompileResult(payload=payload)


def _limit(limits: CompileLimits) -> None:
    seconds = math.ceil(limits.timeout_s)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
