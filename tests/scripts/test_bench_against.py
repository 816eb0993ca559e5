"""Servers side by side: real processes, but of a dozen lines."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import psutil
import pytest

import bench_against
from bar_plot import BarPlot

# Streams as many events as tokens are asked for; with a second argument it refuses instead.
SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
if os.fork() == 0:
    import time
    time.sleep(600)  # a process that its parent does not look after
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "m"}]}).encode())
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(503 if sys.argv[2:] else 200)
        self.send_header("Content-Type", "text/event-stream"), self.end_headers()
        event = json.dumps({"choices": [{"text": "word"}]})
        self.wfile.write(f"data: {event}\\n\\n".encode() * body["max_tokens"] + b"data: [DONE]\\n\\n")
    def log_message(self, *args):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def bench(folder: Path, *servers: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    listed, report = folder / "servers.json", folder / "report.json"
    listed.write_text(
        json.dumps([{"keeps_alive": False, "workloads": ["W1"], **server} for server in servers])
    )
    flags = ("--size", "0.1", "--repeats", "2", "--logs", str(folder), "--plot", str(folder / "bars.svg"))
    code = bench_against.main([str(listed), "--json", str(report), *flags])
    return code, json.loads(report.read_text())


@pytest.fixture
def start(tmp_path: Path) -> str:
    (tmp_path / "server.py").write_text(SERVER)
    return f"{sys.executable} {tmp_path / 'server.py'} {{port}}"


def test_a_server_that_fails_has_a_row_that_says_so_and_the_others_go_on(tmp_path: Path, start: str) -> None:
    ends = f"{sys.executable} -c \"raise SystemExit('no model')\""
    code, report = bench(
        tmp_path,
        {"name": "first", "start": start},
        {"name": "ends", "start": ends},
        {"name": "is missing", "start": "/no/such/program"},
        {"name": "refuses", "start": f"{start} refuses"},
        {"name": "last", "start": start},
    )
    by_name = {row["server"]: row for row in report["table"]}
    assert code == 1
    assert {name: row["num_runs"] for name, row in by_name.items()} == {
        **{"first": 2, "ends": 0, "is missing": 0, "refuses": 0, "last": 2}
    }
    assert by_name["first"]["ratio"] == 1.0
    assert by_name["last"]["ratio"] > 0
    assert by_name["ends"]["remark"] == "ended: no model"
    assert "did not start" in by_name["is missing"]["remark"]
    assert "HTTP 503" in by_name["refuses"]["remark"]
    assert [run["output_tokens"] for run in report["servers"][0]["workloads"]["W1"]["runs"]] == [128, 128]
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(tmp_path) in str(process.info["cmdline"])
    ]
    assert left == []


def test_the_first_of_a_group_is_what_the_others_are_compared_with() -> None:
    svg = BarPlot(title="t", groups={"W1": {"a<b": 100.0, "c": 50.0}, "W2": {"c": 7.0}}).svg()
    root = ElementTree.fromstring(svg)
    namespace = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in root.iter(f"{namespace}text")]
    assert texts == ["t", "W1", "a<b", "100", "c", "50 (× 0.50)", "W2", "c", "7"]
    widths = [float(bar.attrib["width"]) for bar in root.iter(f"{namespace}rect")][1:]
    assert widths[0] == 2 * widths[1]
