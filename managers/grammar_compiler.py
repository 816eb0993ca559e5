"""The actor that compiles grammars, for every front, started when the first one is wanted.

Owns who is compiled next and whose time is up. The compiling is done by expendable children (compile_child.py), a few
at a time, so that one which takes long keeps nobody waiting; a front hears of each grammar once.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, assert_never

from managers.compile_child import CompileChild, CompileLimits
from managers.front_router import FrontRouter
from managers.grammar_vocabulary import grammar_vocabulary
from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages.to_grammar_compiler import CancelCompile, CompileGrammar, GrammarCompilerInput
from managers.messages.to_tokenizer_manager import GrammarCompiled, TokenizerManagerInput
from managers.process import report_ready
from managers.pulses import HEARTBEAT_S
from srt.configs.model_config import ModelConfig
from srt.constrained.grammar import GrammarCompiler
from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.registry import grammar_backend
from srt.errors import StartupError
from srt.server_args.server_args import ServerArgs
from srt.tokenizer.load import load_tokenizer

logger = logging.getLogger(__name__)

MAX_CHILDREN = 4


def run(args: ServerArgs, addresses: IpcAddresses, model_config: ModelConfig, tokenizer_folder: str) -> None:
    """Compile until killed: there is nothing here that would be missed."""
    backend = grammar_backend(args.grammar_backend)
    if backend is None:
        raise StartupError("there is no grammar back end to compile with")
    compiler = backend.compiler(grammar_vocabulary(load_tokenizer(Path(tokenizer_folder)), model_config))
    num_fronts = args.tokenizer_worker_num
    fronts = [addresses] if num_fronts == 1 else [addresses.of_front(front) for front in range(num_fronts)]
    sender = FrontRouter([Sender[TokenizerManagerInput](front.tokenizer_manager_input) for front in fronts])
    receiver = Receiver[GrammarCompilerInput](addresses.grammar_compiler_input, GrammarCompilerInput)
    limits = CompileLimits(
        timeout_s=args.grammar_compile_timeout, memory_bytes=args.grammar_compile_memory_mb << 20
    )
    jobs = CompileJobs(compiler, limits, sender)
    pulse = report_ready(addresses, {})
    while True:
        pulse.beat()
        for message in receiver.receive(jobs.wait_s(HEARTBEAT_S), wake_on=jobs.descriptors):
            jobs.handle(message)
        jobs.go_on()


class ResultSender(Protocol):
    """The sockets of the fronts."""

    def send(self, message: TokenizerManagerInput) -> None:
        """Queue one message; never blocks."""
        ...


class CompileJobs:
    """Those that are being compiled, and those that wait, first come, first served."""

    def __init__(
        self,
        compiler: GrammarCompiler,
        limits: CompileLimits,
        sender: ResultSender,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compiler = compiler
        self._limits = limits
        self._sender = sender
        self._clock = clock
        self._waiting: OrderedDict[int, GrammarSpec] = OrderedDict()
        self._children: dict[int, CompileChild] = {}

    @property
    def descriptors(self) -> list[int]:
        """When one of them is readable, there is something to do."""
        return [child.descriptor for child in self._children.values()]

    def wait_s(self, most: float) -> float:
        """Until the first time limit runs out."""
        now = self._clock()
        return max(min((child.give_up_at - now for child in self._children.values()), default=most), 0.0)

    def handle(self, message: GrammarCompilerInput) -> None:
        """Take one in, or drop it."""
        match message:
            case CompileGrammar(job_id=job_id, kind=kind, text=text):
                if job_id not in self._children:  # a front that hears nothing asks again
                    self._waiting.setdefault(job_id, GrammarSpec(kind=kind, text=text))
            case CancelCompile(job_id=job_id):
                self._waiting.pop(job_id, None)
                child = self._children.pop(job_id, None)
                if child is not None:
                    child.kill()
            case _:
                assert_never(message)

    def go_on(self) -> None:
        """Tell the results there are; give the places that are free to those who wait."""
        for job_id, child in list(self._children.items()):
            result = child.collect(self._clock())
            if result is not None:
                del self._children[job_id]
                if result.error:
                    logger.info("a grammar was refused: %.200s", result.error)
                self._sender.send(GrammarCompiled(job_id=job_id, payload=result.payload, error=result.error))
        while self._waiting and len(self._children) < MAX_CHILDREN:
            job_id, spec = self._waiting.popitem(last=False)
            self._children[job_id] = CompileChild(spec, self._compiler, self._limits, self._clock())

    def close(self) -> None:
        """End every child."""
        for child in self._children.values():
            child.kill()
        self._children.clear()
