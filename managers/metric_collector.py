"""What /metrics tells of the engine: the fronts' shared figures and the replicas' last reports, as families of series.

Any front can answer for all: the figures are in memory that all of them see, and every report reaches each. Work is
done when somebody asks, and only then.
"""

from collections.abc import Iterator, Mapping, Sequence

import srt
from managers.front_board import Figure, FrontBoard
from managers.messages.control import SchedulerLoad
from managers.messages.figures import ABORT_CAUSES, DetokenizerFigures
from srt.engine_client import ModelInfo
from srt.observability import metric_catalogue as m
from srt.observability.exposition import Family, Sample
from srt.observability.front_counts import Count
from srt.observability.histogram import SPAN_BOUNDS, Distribution, Histogram, distribution
from srt.observability.request_timing import SEGMENTS

Value = int | float | Distribution


def collect(
    model_info: ModelInfo,
    board: FrontBoard,
    reports: Sequence[tuple[SchedulerLoad, float]],
    lost_ranks: Sequence[int],
) -> list[Family]:
    """All families. `reports` are the replicas' last ones, each with its age in seconds."""
    model = {"model_name": model_info.served_model_name}
    engine = {**model, "engine_type": "unified"}
    loads = [load for load, _ in reports]
    replicas = {load.dp_rank: _replica_labels(engine, load.dp_rank) for load in loads}
    return [
        *_load_families(reports, lost_ranks, engine),
        *_work_families(loads, replicas),
        *_answer_families(board, engine, model),
        Family(m.CONTEXT_LENGTH, [Sample(engine, model_info.context_length)]),
        *_grammar_families(board, engine),
        *_worker_families(board, model),
        *_detokenizer_families(_latest_detokenizer(loads), model),
        Family(m.PROCESS_CPU, list(_cpu_samples(board, loads, model))),
        Family(m.BUILD, [Sample({**model, "version": srt.__version__}, 1)]),
    ]


def _load_families(
    reports: Sequence[tuple[SchedulerLoad, float]], lost_ranks: Sequence[int], engine: Mapping[str, str]
) -> Iterator[Family]:
    values: dict[m.Metric, list[Sample]] = {}
    for load, age_s in reports:
        labels = _replica_labels(engine, load.dp_rank)
        for metric, value in _load_values(load, age_s).items():
            values.setdefault(metric, []).append(Sample(labels, value))
    yield from (Family(metric, samples) for metric, samples in values.items())
    up = [Sample(_replica_labels(engine, load.dp_rank), 1) for load, _ in reports]
    down = [Sample(_replica_labels(engine, rank), 0) for rank in lost_ranks]
    yield Family(m.REPLICA_UP, [*up, *down])


def _load_values(load: SchedulerLoad, age_s: float) -> dict[m.Metric, Value]:
    return {
        m.NUM_RUNNING: load.num_running,
        m.NUM_QUEUED: load.num_waiting,
        m.NUM_USED_TOKENS: load.num_used_tokens,
        m.TOKEN_USAGE: load.num_used_tokens / max(load.max_total_num_tokens, 1),
        m.KV_USED: load.num_used_tokens,
        m.KV_EVICTABLE: load.num_evictable_tokens,
        m.KV_AVAILABLE: load.max_total_num_tokens - load.num_used_tokens - load.num_evictable_tokens,
        m.MAX_TOTAL_TOKENS: load.max_total_num_tokens,
        m.MAX_RUNNING: load.max_running_requests,
        m.UTILIZATION: load.num_running / max(load.max_running_requests, 1),
        m.GEN_THROUGHPUT: load.gen_throughput,
        m.CACHE_HIT_RATE: load.cache_hit_rate,
        m.UNCACHED_WAITING: load.num_waiting_uncached_tokens,
        m.REPORT_AGE: age_s,
    }


def _work_families(
    loads: Sequence[SchedulerLoad], replicas: Mapping[int, Mapping[str, str]]
) -> Iterator[Family]:
    def family(metric: m.Metric, values: Sequence[Value]) -> Family:
        rows = zip(loads, values, strict=True)
        return Family(metric, [Sample(replicas[load.dp_rank], value) for load, value in rows])

    figures = [load.figures for load in loads]
    yield family(m.QUEUE_TIME, [distribution(SPAN_BOUNDS, f.queue_time) for f in figures])
    yield family(m.TICK_TIME, [distribution(SPAN_BOUNDS, f.tick_time) for f in figures])
    modes = ("prefill_compute", "prefill_cache", "decode")
    yield Family(
        m.REALTIME_TOKENS,
        [
            Sample({**replicas[load.dp_rank], "mode": mode}, num)
            for load in loads
            for mode, num in zip(
                modes,
                (
                    load.figures.num_prefill_tokens,
                    load.figures.num_cached_tokens,
                    load.figures.num_decode_tokens,
                ),
                strict=True,
            )
        ],
    )
    yield family(m.RETRACTED, [f.num_retractions for f in figures])
    yield family(m.RETRACTED_INPUT, [f.num_retracted_input_tokens for f in figures])
    yield family(m.RETRACTED_OUTPUT, [f.num_retracted_output_tokens for f in figures])
    yield Family(
        m.ABORTS,
        [
            Sample({**replicas[load.dp_rank], "cause": cause}, num)
            for load in loads
            for cause, num in zip(ABORT_CAUSES, load.figures.aborts, strict=False)
        ],
    )
    yield family(m.LEDGER_REPAIRS, [load.num_ledger_repairs for load in loads])


def _answer_families(
    board: FrontBoard, engine: Mapping[str, str], model: Mapping[str, str]
) -> Iterator[Family]:
    counts = [row.counts for row in board.rows]

    def by_stream(metric: m.Metric, whole: Value, streamed: Value) -> Family:
        values = (("false", whole), ("true", streamed))
        return Family(metric, [Sample({**engine, "is_streaming": name}, value) for name, value in values])

    def pair(metric: m.Metric, count: int) -> Family:
        return by_stream(metric, _total(board, count), _total(board, count + 1))

    yield pair(m.REQUESTS, Count.ANSWERS)
    yield Family(m.ABORTED, [Sample(engine, _total(board, Count.ABORTED_ANSWERS))])
    yield Family(m.STRUCTURED, [Sample(engine, _total(board, Count.STRUCTURED_REQUESTS))])
    yield pair(m.PROMPT_TOKENS, Count.PROMPT_TOKENS)
    cached = _total(board, Count.CACHED_TOKENS)
    sources = ("device", "total")  # nothing else caches here
    yield Family(m.CACHED_TOKENS, [Sample({**engine, "cache_source": source}, cached) for source in sources])
    yield pair(m.GENERATION_TOKENS, Count.GENERATED_TOKENS)
    for metric, name in (
        (m.TIME_TO_FIRST_TOKEN, "time_to_first_token"),
        (m.PER_OUTPUT_TOKEN, "per_output_token"),
        (m.END_TO_END, "end_to_end"),
    ):
        pairs = [getattr(count, name) for count in counts]
        yield by_stream(metric, _sum([one for one, _ in pairs]), _sum([other for _, other in pairs]))
    yield Family(m.INTER_TOKEN, [Sample(engine, _sum([count.inter_token for count in counts]))])
    yield Family(
        m.SEGMENT,
        [
            Sample({**model, "segment": name}, _sum([count.segments[name] for count in counts]))
            for name in SEGMENTS
        ],
    )


def _grammar_families(board: FrontBoard, engine: Mapping[str, str]) -> Iterator[Family]:
    for metric, count in (
        (m.NUM_GRAMMAR_QUEUE, Count.GRAMMARS_WAITED_FOR),
        (m.GRAMMARS, Count.GRAMMARS_ASKED),
        (m.GRAMMAR_HITS, Count.GRAMMARS_FOUND),
        (m.GRAMMARS_ABORTED, Count.GRAMMARS_REFUSED),
    ):
        yield Family(metric, [Sample(engine, _total(board, count))])
    times = _sum([row.counts.grammar_compilation for row in board.rows])
    yield Family(m.GRAMMAR_TIME, [Sample(engine, times)])


def _worker_families(board: FrontBoard, model: Mapping[str, str]) -> Iterator[Family]:
    def family(metric: m.Metric, values: Sequence[Value]) -> Family:
        workers = [{**model, "tokenizer_worker": str(index)} for index in range(len(board.rows))]
        return Family(metric, [Sample(labels, value) for labels, value in zip(workers, values, strict=True)])

    rows = board.rows
    open_now = [row[Figure.CONNECTIONS_OPENED] - row[Figure.CONNECTIONS_CLOSED] for row in rows]
    yield family(m.CONNECTIONS, open_now)
    yield family(m.OPEN_ANSWERS, [row[Figure.OPEN_ANSWERS] for row in rows])
    yield family(m.COALESCED, [row[Figure.COALESCED_CHUNKS] for row in rows])
    yield family(m.LOOP_LAG, [row.counts.loop_lag.read() for row in rows])


def _detokenizer_families(figures: DetokenizerFigures | None, model: Mapping[str, str]) -> Iterator[Family]:
    if figures is not None:
        yield Family(m.DETOKENIZER_BACKLOG, [Sample(model, figures.backlog)])
        yield Family(m.DETOKENIZER_OPEN, [Sample(model, figures.num_open)])
        yield Family(m.DETOKENIZER_MERGED, [Sample(model, figures.num_merged_batches)])
        yield Family(m.DETOKENIZER_COALESCED, [Sample(model, figures.num_coalesced_chunks)])


def _cpu_samples(
    board: FrontBoard, loads: Sequence[SchedulerLoad], model: Mapping[str, str]
) -> Iterator[Sample]:
    for index, row in enumerate(board.rows):
        component = {**model, "component": f"tokenizer_worker_{index}"}
        yield Sample(component, row.counts[Count.CPU_MILLISECONDS] / 1000)
    for load in loads:
        yield Sample({**model, "component": f"scheduler_DP{load.dp_rank}_TP0"}, load.figures.cpu_s)
    detokenizer = _latest_detokenizer(loads)
    if detokenizer is not None:
        yield Sample({**model, "component": "detokenizer"}, detokenizer.cpu_s)


def _latest_detokenizer(loads: Sequence[SchedulerLoad]) -> DetokenizerFigures | None:
    """There is one detokenizer, and its CPU time only grows."""
    told = [load.detokenizer for load in loads if load.detokenizer is not None]
    return max(told, key=lambda figures: figures.cpu_s, default=None)


def _replica_labels(engine: Mapping[str, str], dp_rank: int) -> Mapping[str, str]:
    # One rank of a group talks for all, and there are no pipelines or experts to tell apart.
    return {**engine, "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0", "dp_rank": str(dp_rank)}


def _total(board: FrontBoard, count: int) -> int:
    return sum(row.counts[count] for row in board.rows)


def _sum(histograms: Sequence[Histogram]) -> Distribution:
    first, *others = [histogram.read() for histogram in histograms]
    for other in others:
        first += other
    return first
