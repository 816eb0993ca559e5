"""What docs/operations/deploy/ promises to Docker, Kubernetes and systemd is what the server does."""

import configparser
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch_server import CLOSE_GRACE_S
from srt.entrypoints.middleware import OPEN_PATHS
from srt.entrypoints.routes import build_routes
from srt.server_args.cli import parse_args
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "operations" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


class Dockerfile:
    """Instructions, comments gone, continued lines joined."""

    def __init__(self) -> None:
        text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
        lines = text.replace("\\\n", " ").splitlines()
        self.instructions = [line.split(maxsplit=1) for line in lines if line.strip()]

    def all(self, name: str) -> list[str]:
        return [rest for instruction, rest in self.instructions if instruction == name]

    def only(self, name: str) -> str:
        (found,) = self.all(name)
        return found

    def copied(self) -> Iterator[str]:
        """Paths of the repository."""
        for rest in self.all("COPY"):
            if not rest.startswith("--from"):
                yield from rest.split()[:-1]

    def command(self) -> list[str]:
        """The flags with which the image starts the server."""
        entry_point: list[str] = json.loads(self.only("ENTRYPOINT"))
        return entry_point[entry_point.index("lockstep") + 1 :]


@pytest.fixture(scope="module")
def dockerfile() -> Dockerfile:
    return Dockerfile()


def resource(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((KUBERNETES / f"{name}.yaml").read_text(encoding="utf-8"))
    return read


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = resource("deployment")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    assert isinstance(only, dict)
    return only


def unit() -> dict[str, str]:
    parser = configparser.RawConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their capitals
    parser.read(DEPLOY / "lockstep.service", encoding="utf-8")
    return dict(parser["Service"])


def paths_without_a_key() -> set[str]:
    routes = build_routes(FakeEngineClient(), ServerArgs())
    return {route.path for route in routes if hasattr(route, "path")} & OPEN_PATHS


# The package


def test_everything_that_lies_beside_the_code_is_packaged() -> None:
    """Sources of kernels and pages: a kind of file that nobody has thought of would be missing from a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "srt", "managers", "mem_cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    beside = [Path(name) for name in listed.stdout.splitlines() if not name.endswith((".py", "README.md"))]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]
    for path in beside:
        patterns = packaged["*"] + packaged.get(".".join(path.parent.parts), [])
        assert any(path.match(pattern) for pattern in patterns), path


# Docker


def test_the_image_holds_all_that_is_installed_and_its_build_sees_it(dockerfile: Dockerfile) -> None:
    copied = set(dockerfile.copied()) - {"pyproject.toml"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tools = project["tool"]["setuptools"]
    installed = {
        "README.md",
        "LICENSE",
        *(f"{module}.py" for module in tools["py-modules"]),
        *(pattern.rstrip("*") for pattern in tools["packages"]["find"]["include"]),
        *(file for files in tools["data-files"].values() for file in files),
    }
    assert copied == installed
    assert [path for path in copied if not (ROOT / path).exists()] == []
    seen = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in seen if line.startswith("!")} == copied | {"pyproject.toml"}


def test_the_image_has_the_torch_that_everything_is_tested_with(dockerfile: Dockerfile) -> None:
    (tested,) = re.findall(
        r"^torch_version=(.+)$", (ROOT / "scripts/setup").read_text(encoding="utf-8"), re.M
    )
    assert f"TORCH_VERSION={tested}" in dockerfile.all("ARG")
    assert set(re.findall(r"torch==([\d.]+)", (DEPLOY / "README.md").read_text(encoding="utf-8"))) == {tested}


def test_the_image_starts_on_the_port_that_it_tells_of(dockerfile: Dockerfile) -> None:
    args = parse_args(dockerfile.command())
    assert dockerfile.only("EXPOSE") == str(args.port)
    asked = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", dockerfile.only("HEALTHCHECK"))
    assert asked == [(str(args.port), "/live")]
    assert "/live" in paths_without_a_key()
    assert dockerfile.only("STOPSIGNAL") == "SIGTERM"


def test_the_image_runs_as_the_user_that_kubernetes_expects(dockerfile: Dockerfile) -> None:
    expected = pod()["securityContext"]
    (user,) = set(dockerfile.all("USER"))
    assert user == f"{expected['runAsUser']}:{expected['runAsGroup']}"
    assert f"--uid {expected['runAsUser']} " in " ".join(dockerfile.all("RUN"))


# Kubernetes


def test_the_pods_flags_are_flags_behind_those_of_the_image(dockerfile: Dockerfile) -> None:
    args = parse_args([*dockerfile.command(), *container()["args"]])
    assert args.enable_metrics  # what the ServiceMonitor asks for
    (mount,) = [m for m in container()["volumeMounts"] if m["name"] == "model"]
    assert args.model_path == mount["mountPath"]


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_a_probe_asks_a_port_and_a_path_that_there_are_without_a_key(probe: str) -> None:
    asked = container()[probe]["httpGet"]
    assert asked["path"] in paths_without_a_key()
    assert asked["port"] in {port["name"] for port in container()["ports"]}
    assert ("ready" in asked["path"]) == (probe == "readinessProbe")


def test_one_port_goes_all_the_way(dockerfile: Dockerfile) -> None:
    (port,) = container()["ports"]
    assert str(port["containerPort"]) == dockerfile.only("EXPOSE")
    (service,) = resource("service")["spec"]["ports"]
    assert service["targetPort"] == port["name"]
    (monitored,) = resource("servicemonitor")["spec"]["endpoints"]
    assert monitored["port"] == service["name"]
    assert monitored["path"] in paths_without_a_key()


def test_everything_is_about_the_same_pods() -> None:
    template = resource("deployment")["spec"]["template"]["metadata"]["labels"]
    assert resource("service")["spec"]["selector"] == template
    for name in ("deployment", "poddisruptionbudget"):
        assert resource(name)["spec"]["selector"]["matchLabels"] == template, name
    assert (
        resource("servicemonitor")["spec"]["selector"]["matchLabels"]
        == resource("service")["metadata"]["labels"]
    )
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(resource("kustomization")["resources"]) == files


def test_every_volume_is_mounted() -> None:
    assert {v["name"] for v in pod()["volumes"]} == {m["name"] for m in container()["volumeMounts"]}


def test_a_pod_may_drain_before_it_is_killed() -> None:
    before = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = parse_args(container()["args"]).drain_timeout
    assert pod()["terminationGracePeriodSeconds"] > before + drain + CLOSE_GRACE_S


# systemd


def test_the_units_file_of_flags_is_one() -> None:
    command = shlex.split(unit()["ExecStart"])
    assert command[1:] == ["--config", "/etc/lockstep/server.yaml"]
    assert parse_args(["--config", str(DEPLOY / "server.yaml")]).enable_metrics


def test_the_unit_may_drain_before_it_is_killed() -> None:
    args = parse_args(["--config", str(DEPLOY / "server.yaml")])
    assert float(unit()["TimeoutStopSec"].removesuffix("s")) > args.drain_timeout + CLOSE_GRACE_S
    assert unit()["Type"] == "notify"
    assert unit()["KillMode"] == "mixed"  # the main process ends the others itself


def test_the_units_command_is_what_the_package_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert Path(shlex.split(unit()["ExecStart"])[0]).name in project["scripts"]
