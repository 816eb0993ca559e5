"""What a start takes, by its parts."""

from srt.observability.start_parts import StartParts


def test_every_part_is_named_with_its_time_and_the_processors() -> None:
    clock, cpu = iter([101.5, 102.0]), iter([1.25, 1.5])
    parts = StartParts(lambda: next(clock), lambda: next(cpu), began=100.0)
    parts.end("imports")
    parts.end("weights")
    assert str(parts) == "imports 1.50 s (1.25), weights 0.50 s (0.25); in all 2.00 s (1.50)"


def test_the_first_part_begins_with_the_process() -> None:
    parts = StartParts()
    parts.end("all there is")
    assert 0 < float(str(parts).split()[3]) < 86_400
