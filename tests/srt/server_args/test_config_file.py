from pathlib import Path

import pytest

from srt.server_args.cli import parse_args


def write(folder: Path, text: str, name: str = "server.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.yaml",
            "page-size: 16\nserved_model_name: m\nenable-metrics: true\ntp: 2\nmem-fraction-static: 0.5\n",
        ),
        (
            "a.json",
            '{"page-size": 16, "served_model_name": "m", "enable-metrics": true, "tp": 2, "mem_fraction_static": 0.5}',
        ),
        (
            "a.toml",
            'page-size = 16\nserved_model_name = "m"\nenable-metrics = true\ntp = 2\nmem-fraction-static = 0.5\n',
        ),
    ],
)
def test_a_file_says_what_could_be_typed(tmp_path: Path, name: str, text: str) -> None:
    args = parse_args(["--config", write(tmp_path, text, name)])
    assert (args.page_size, args.served_model_name, args.enable_metrics) == (16, "m", True)
    assert (args.tp_size, args.mem_fraction_static) == (2, 0.5)


def test_what_is_typed_wins_wherever_it_stands(tmp_path: Path) -> None:
    config = write(tmp_path, "page-size: 16\nhost: 0.0.0.0\n")
    for argv in (["--page-size", "4", "--config", config], ["--config", config, "--page-size", "4"]):
        args = parse_args(argv)
        assert (args.page_size, args.host) == (4, "0.0.0.0")


def test_what_is_null_or_false_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    config = write(tmp_path, "# nothing yet\npage-size:\nenable-metrics: false\nchunked-prefill-size: -1\n")
    args = parse_args(["--config", config])
    assert (args.page_size, args.enable_metrics, args.chunked_prefill_size) == (1, False, -1)
    assert parse_args(["--config", write(tmp_path, "# nothing\n")]) == parse_args([])


def complaint(capsys: pytest.CaptureFixture[str], config: str) -> str:
    with pytest.raises(SystemExit) as exit_info:
        parse_args(["--config", config])
    assert exit_info.value.code == 2
    return capsys.readouterr().err.rpartition("error: ")[2]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(
        tmp_path,
        "page-szie: 16\nport: many\nenable-metrics: 1\napi-key: 12345\nserved-model-name: 7\ntp: 2\ntp-size: 4\n"
        "schedule-policy: lifo\nhost: [a]\n",
    )
    said = complaint(capsys, config)
    assert "there is no flag page-szie; did you mean page-size" in said
    assert "port must be a whole number, not 'many'" in said
    assert "enable-metrics must be true or false, not 1" in said
    assert "served-model-name must be text, not 7, so it needs quotes" in said
    assert "api-key must be text" in said
    assert "12345" not in said  # a secret
    assert "tp-size and tp are the same flag" in said
    assert "schedule-policy must be one of fcfs" in said
    assert "host must be text, not ['a']\n" in said


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.yaml", "page-size: [", "cannot be read"),
        ("a.json", "{", "cannot be read"),
        ("a.toml", "=", "cannot be read"),
        ("a.yaml", "- page-size", "must be a list of `flag: value`"),
        ("a.yaml", "config: other.yaml", "there is no flag config"),
        ("a.yaml", "? [a]\n: 1", "cannot be read"),
    ],
)
def test_what_is_no_list_of_flags_is_named_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, part: str
) -> None:
    said = complaint(capsys, write(tmp_path, text, name))
    assert part in said
    assert name in said


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in complaint(capsys, str(tmp_path / "none.yaml"))
