"""Run the client programs of this folder against a server, each in an environment of its own: scripts/test_clients."""

# ruff: noqa: T201 (a program speaks)

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from srt.env import cache_dir
from tests.e2e.server_process import ServerProcess

HERE = Path(__file__).parent
# The default model's chat template knows no tools, so it is said how calls are written.
SERVER_FLAGS = ("--dtype", "float32", "--max-total-tokens", "20000", "--tool-call-parser", "hermes")
DEADLINE_S = 900


@dataclass(frozen=True)
class Client:
    """One client, in the version that was tried."""

    name: str
    program: str
    packages: tuple[str, ...]

    @property
    def home(self) -> Path:
        """Where its environment is kept between runs; another version gets another."""
        return cache_dir() / "test_clients" / "_".join((self.name, *self.packages))


CLIENTS = (
    Client("openai-js", "openai_js.mjs", ("openai@6.49.0",)),  # the last that runs on node 20
    Client("anthropic", "anthropic_client.py", ("anthropic==2.14.0",)),
    Client("langchain", "langchain_client.py", ("langchain-openai==1.7.4",)),
    Client("litellm", "litellm_client.py", ("litellm==1.110.2",)),
)


def main(names: list[str]) -> int:
    """Run the clients of these names, or all; the exit code says whether every one was content."""
    if unknown := sorted(set(names) - {client.name for client in CLIENTS}):
        print(f"there is no {unknown[0]}; there are {', '.join(client.name for client in CLIENTS)}")
        return 2
    clients = [client for client in CLIENTS if not names or client.name in names]
    commands = {client.name: prepare(client) for client in clients}
    verdicts = {}
    with ServerProcess(*SERVER_FLAGS) as server:
        for name, command in commands.items():
            print(f"\n== {name}", flush=True)
            # LiteLLM would fetch a price list when it is imported.
            env = {**os.environ, "LOCKSTEP_URL": server.base_url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            verdicts[name] = subprocess.run(command, env=env, timeout=DEADLINE_S, check=False).returncode
        if any(verdicts.values()):
            print(f"\n== the server's log\n{server.log()[-4000:]}")
    for name, code in verdicts.items():
        print(f"{'FAILED' if code else 'ok':7} {name}")
    return int(any(verdicts.values()))


def prepare(client: Client) -> list[str]:
    """Make the client's environment if there is none, and give the command that runs its program."""
    return _prepare_node(client) if client.program.endswith(".mjs") else _prepare_python(client)


def _prepare_node(client: Client) -> list[str]:
    if not (client.home / "node_modules").is_dir():
        _say_installing(client)
        client.home.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *client.packages]
        subprocess.run([*npm, "--prefix", str(client.home)], check=True)
    # Node looks for packages from where a program lies.
    return ["node", "--test", "--test-reporter=spec", shutil.copy(HERE / client.program, client.home)]


def _prepare_python(client: Client) -> list[str]:
    python = client.home / "bin" / "python"
    stamp = client.home / "installed"
    if not stamp.exists():
        _say_installing(client)
        venv.create(client.home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "pytest>=9", *client.packages], check=True)
        stamp.touch()
    # With no configuration of ours: other packages' warnings are their own business.
    options = ["--noconftest", "--disable-warnings", "-p", "no:cacheprovider", "-c", os.devnull]
    return [str(python), "-m", "pytest", "-q", *options, "--rootdir", str(HERE), str(HERE / client.program)]


def _say_installing(client: Client) -> None:
    print(f"installing {' '.join(client.packages)} into {client.home}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
