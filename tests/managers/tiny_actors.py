"""Actors that do one small thing, for the tests of processes. Started by name, as real ones are."""

import os
import signal
import threading

from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages import GetStateReply, Shutdown, TokenizerManagerInput
from managers.process import report_ready
from srt.errors import LockstepDivergence, StartupError


def ready_until_shutdown(addresses: IpcAddresses) -> None:
    receiver = Receiver[Shutdown](addresses.scheduler_input, Shutdown)
    report_ready(addresses, {"pid": os.getpid()})
    while not receiver.receive(1.0):
        pass


def ready_until_killed(addresses: IpcAddresses) -> None:
    report_ready(addresses, {"pid": os.getpid()})
    threading.Event().wait()


def fails_when_told(addresses: IpcAddresses) -> None:
    ready_until_shutdown(addresses)
    raise ZeroDivisionError("seven by nothing")


def cannot_start(addresses: IpcAddresses) -> None:
    raise StartupError("the moon is too far", hint="wait")


def has_a_bug(addresses: IpcAddresses) -> None:
    raise ZeroDivisionError("seven by nothing")


def diverges(addresses: IpcAddresses) -> None:
    raise LockstepDivergence("turn 7: rank 1 planned otherwise")


def is_killed_at_once(addresses: IpcAddresses) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def never_ready(addresses: IpcAddresses) -> None:
    threading.Event().wait()


def says_something_and_ends(addresses: IpcAddresses) -> None:
    sender = Sender[TokenizerManagerInput](addresses.tokenizer_manager_input)
    for number in range(1000):
        sender.send(GetStateReply(control_id=number, state={}))
    report_ready(addresses, {})


def gets_stuck(addresses: IpcAddresses) -> None:
    report_ready(addresses, {"pid": os.getpid()})
    waits_for_what_never_comes()


def waits_for_what_never_comes() -> None:
    threading.Event().wait()


def beats(addresses: IpcAddresses) -> None:
    pulse = report_ready(addresses, {"pid": os.getpid()})
    while True:
        pulse.beat()
        threading.Event().wait(0.05)
