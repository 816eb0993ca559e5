"""Every environment variable that Lockstep reads: name, default and meaning, and the one place that reads them."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EnvVariable:
    """One variable, as the documentation shows it."""

    name: str
    default: str
    help: str


CACHE_DIR = EnvVariable(
    name="LOCKSTEP_CACHE_DIR",
    default="~/.cache/lockstep",
    help="Folder for what is made once and kept: converted tokenizers, compiled kernels.",
)

COMPILER = EnvVariable(
    name="CXX",
    default="g++",
    help="C++ compiler for the native kernels: a name or a path.",
)

AMX = EnvVariable(
    name="LOCKSTEP_AMX",
    default="1",
    help="0: native kernels multiply with AVX-512 where the processor has AMX, too, for comparison.",
)

SERVICE_MANAGER = EnvVariable(
    name="NOTIFY_SOCKET",
    default="",
    help="Where a service manager wants to hear that the server serves, and that it stops. systemd sets it.",
)

ALL = (CACHE_DIR, COMPILER, AMX, SERVICE_MANAGER)


def cache_dir() -> Path:
    """The folder of LOCKSTEP_CACHE_DIR. It may not exist yet."""
    # A variable that is set but empty counts as not set, as in the shell's ${NAME:-default}.
    return Path(os.environ.get(CACHE_DIR.name) or CACHE_DIR.default).expanduser()


def compiler() -> str:
    """The command of CXX."""
    return os.environ.get(COMPILER.name) or COMPILER.default


def wants_amx() -> bool:
    """Whether LOCKSTEP_AMX leaves it on."""
    return (os.environ.get(AMX.name) or AMX.default) != "0"


def service_manager_socket() -> str:
    """The address in NOTIFY_SOCKET, or nothing."""
    return os.environ.get(SERVICE_MANAGER.name, SERVICE_MANAGER.default)
