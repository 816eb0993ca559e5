"""Figures that several processes share."""

from pathlib import Path

from managers.front_board import Figure, FrontBoard


def test_what_one_front_writes_every_other_reads(tmp_path: Path) -> None:
    path = str(tmp_path / "fronts")
    mine, theirs = FrontBoard.shared(path, 3), FrontBoard.shared(path, 3)
    mine.rows[1][Figure.OPEN_ANSWERS] = 7
    mine.rows[2].count(Figure.CONNECTIONS_OPENED)
    assert theirs.rows[1][Figure.OPEN_ANSWERS] == 7
    assert [state["num_connections"] for state in theirs.states()] == [0, 0, 1]


def test_open_connections_are_those_that_were_not_closed() -> None:
    board = FrontBoard.private()
    for _ in range(3):
        board.rows[0].count(Figure.CONNECTIONS_OPENED)
    board.rows[0].count(Figure.CONNECTIONS_CLOSED)
    assert board.states() == [
        {"tokenizer_worker": 0, "num_connections": 2, "num_open_answers": 0, "num_coalesced_chunks": 0}
    ]
