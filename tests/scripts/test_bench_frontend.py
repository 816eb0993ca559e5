import pytest

from bench_frontend import COLUMNS, parse_options, plots, render_rows, role_of

ROW = dict.fromkeys(
    [
        *("workers", "streams", "tokens/s", "ideal", "batch", "tok/event"),
        *("TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99"),
        *("front us", "detok us", "sched us", "client us"),
    ],
    1.5,
)


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("lockstep::scheduler_DP1_TP0 [12]", "sched"),
        ("lockstep::detokenizer [12]", "detok"),
        ("lockstep::tokenizer_worker_1 [12]", "front"),
        ("python -m launch_server --port 1 [12]", "front"),
        ("lockstep::grammar_compiler [12]", "other"),
    ],
)
def test_each_process_has_its_column(title: str, role: str) -> None:
    assert role_of(title) == role


def test_a_row_has_a_cell_under_each_heading() -> None:
    heading, rule, cells = render_rows([ROW]).splitlines()
    assert [line.count("|") for line in (heading, rule, cells)] == [len(COLUMNS) + 1] * 3
    assert "| 1.5, 1.5 |" in cells


def test_sweeps_are_lists_of_numbers() -> None:
    options = parse_options(["--streams", "16,1024", "--workers", "1,2"])
    assert (options.streams, options.workers) == ([16, 1024], [1, 2])


def test_each_number_of_front_processes_has_a_curve() -> None:
    rows = [
        dict.fromkeys(ROW, 1.0) | {"workers": float(workers), "streams": float(streams)}
        for workers in (1, 2)
        for streams in (16, 64)
    ]
    drawn = plots(rows)["rate"]
    assert drawn.curves == {
        "1 front process": [(16.0, 1.0), (64.0, 1.0)],
        "2 front processes": [(16.0, 1.0), (64.0, 1.0)],
    }
    assert drawn.svg().count("<polyline") == 2
