from bench_workers import COLUMNS, cells


def test_every_process_has_its_share_in_the_column_of_its_kind() -> None:
    used = {
        "python -m launch_server [1]": 0.5,
        "lockstep::tokenizer_worker_0 [2]": 0.1,
        "lockstep::tokenizer_worker_1 [3]": 0.2,
        "lockstep::scheduler_TP0 [4]": 9.0,
    }
    assert dict(zip(COLUMNS, cells(used, 100_000), strict=True)) == {
        "main": "0.50 (5)",
        "each HTTP process": "0.20, 0.10 (2, 1)",
        "detokenizer": "",
    }
