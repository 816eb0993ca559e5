"""What /metrics tells of the engine."""

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from managers.front_board import Figure, FrontBoard, FrontRow
from managers.messages.control import SchedulerLoad
from managers.messages.figures import ABORT_CAUSES, DetokenizerFigures, SchedulerFigures
from managers.metric_collector import collect
from srt.observability.exposition import render
from srt.observability.front_counts import Count
from srt.observability.histogram import SPAN_BOUNDS, Histogram
from srt.observability.metric_catalogue import GROUPS, METRICS
from tests.fakes.engine_client import MODEL_INFO

LOAD = SchedulerLoad(
    dp_rank=0,
    num_running=3,
    num_waiting=2,
    num_waiting_uncached_tokens=50,
    num_used_tokens=200,
    num_cached_tokens=100,
    max_total_num_tokens=1000,
    max_running_requests=6,
    gen_throughput=12.5,
    cache_hit_rate=0.25,
    turn=9,
    num_ledger_repairs=1,
    num_evictable_tokens=300,
    detokenizer=DetokenizerFigures(num_open=3, backlog=2, num_merged_batches=5, cpu_s=1.5),
)


def figures() -> SchedulerFigures:
    waited = Histogram(SPAN_BOUNDS)
    waited.observe(0.3, 4)
    return SchedulerFigures(
        queue_time=waited.cells,
        tick_time=waited.cells,
        num_prefill_tokens=70,
        num_cached_tokens=30,
        num_decode_tokens=11,
        num_retractions=2,
        aborts=list(range(len(ABORT_CAUSES))),
        cpu_s=2.5,
    )


def board_of(num_fronts: int) -> FrontBoard:
    return FrontBoard(memoryview(bytearray(8 * FrontRow.NUM_CELLS * num_fronts)), num_fronts)


def series(
    board: FrontBoard, *loads: SchedulerLoad, lost: tuple[int, ...] = (), **labels: str
) -> dict[str, float]:
    """Every value whose series has these labels, by name."""
    page = render(collect(MODEL_INFO, board, [(load, 0.5) for load in loads], lost), "sglang:")
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if labels.items() <= sample.labels.items()
    }


def test_every_metric_is_there_from_the_first_report_on() -> None:
    told = {family.metric for family in collect(MODEL_INFO, board_of(1), [(LOAD, 0.0)], []) if family.samples}
    told |= set(GROUPS["HTTP"])  # its own layer counts that
    assert [metric.name for metric in METRICS if metric not in told] == ["aborts_total"]
    assert series(board_of(1), msgspec.structs.replace(LOAD, figures=figures()), cause="queue_full") == {
        "lockstep_aborts_total": 1.0
    }


def test_a_replica_says_how_busy_it_is() -> None:
    told = series(board_of(1), LOAD)
    assert told["sglang:num_running_reqs"] == 3
    assert told["sglang:num_queue_reqs"] == 2
    assert told["sglang:token_usage"] == 0.2
    assert told["sglang:kv_available_tokens"] == 500
    assert told["sglang:utilization"] == 0.5
    assert told["lockstep_ledger_repairs_total"] == 1
    assert told["lockstep_detokenizer_backlog"] == 2


def test_a_replica_says_what_it_has_done() -> None:
    load = msgspec.structs.replace(LOAD, figures=figures())
    assert series(board_of(1), load, mode="prefill_cache")["sglang:realtime_tokens_total"] == 30
    told = series(board_of(1), load)
    assert (told["sglang:queue_time_seconds_count"], told["sglang:queue_time_seconds_sum"]) == (4, 1.2)
    assert told["sglang:num_retracted_requests_total"] == 2


def test_each_replica_has_its_own_series_and_a_lost_one_is_down() -> None:
    other = msgspec.structs.replace(LOAD, dp_rank=1, num_running=5)
    assert series(board_of(1), LOAD, other, dp_rank="1")["sglang:num_running_reqs"] == 5
    assert series(board_of(1), LOAD, lost=(1,), dp_rank="1") == {"lockstep_replica_up": 0.0}


def test_any_front_tells_of_all() -> None:
    board = board_of(2)
    for row in board.rows:
        row.counts.add(Count.STREAMED_GENERATED_TOKENS, 10)
        row.counts.time_to_first_token[True].observe(0.3)
        row[Figure.OPEN_ANSWERS] = 2
    told = series(board, LOAD, is_streaming="true")
    assert told["sglang:generation_tokens_total"] == 20
    assert told["sglang:time_to_first_token_seconds_count"] == 2
    assert series(board, LOAD, tokenizer_worker="1")["lockstep_open_answers"] == 2


def test_before_the_first_report_there_is_what_the_fronts_know() -> None:
    told = series(board_of(1))
    assert told["sglang:num_aborted_requests_total"] == 0
    assert "sglang:num_running_reqs" not in told
