"""Every metric of `/metrics`: name, kind, labels, meaning. docs/metrics.md is written out of this.

Names, kinds and labels are SGLang's where the meaning is the same; `is_ours` says that there is no such metric there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# SGLang's names begin so, and dashboards ask for them; --metrics-prefix changes it. Our own always begin like this.
SGLANG_PREFIX, OUR_PREFIX = "sglang:", "lockstep_"

ENGINE = ("model_name", "engine_type")
SCHEDULER = (*ENGINE, "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank")
WORKER = ("model_name", "tokenizer_worker")


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them. A counter's name ends in `_total`. `labels` are all that it has."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    is_ours: bool = False

    def full_name(self, prefix: str) -> str:
        """As it stands in `/metrics`."""
        return (OUR_PREFIX if self.is_ours else prefix) + self.name


def _ours(
    name: str, kind: Literal["gauge", "counter", "histogram"], help_text: str, labels: tuple[str, ...]
) -> Metric:
    return Metric(name, kind, help_text, labels, is_ours=True)


# How busy each replica is, as of its last report.
NUM_RUNNING = Metric("num_running_reqs", "gauge", "Answers in the running batch.", SCHEDULER)
NUM_QUEUED = Metric("num_queue_reqs", "gauge", "Answers that wait to run.", SCHEDULER)
NUM_USED_TOKENS = Metric("num_used_tokens", "gauge", "Tokens of KV memory that answers hold.", SCHEDULER)
TOKEN_USAGE = Metric("token_usage", "gauge", "The same as a share of all.", SCHEDULER)
KV_USED = Metric("kv_used_tokens", "gauge", "The same as num_used_tokens.", SCHEDULER)
KV_EVICTABLE = Metric(
    "kv_evictable_tokens", "gauge", "Tokens of KV memory with prefixes that nobody uses now.", SCHEDULER
)
KV_AVAILABLE = Metric("kv_available_tokens", "gauge", "Tokens of KV memory that hold nothing.", SCHEDULER)
MAX_TOTAL_TOKENS = Metric("max_total_num_tokens", "gauge", "Tokens of KV memory.", SCHEDULER)
MAX_RUNNING = _ours("max_running_requests", "gauge", "Answers that may run at once.", SCHEDULER)
UTILIZATION = Metric(
    "utilization", "gauge", "Answers that run, as a share of those that may at once.", SCHEDULER
)
GEN_THROUGHPUT = Metric(
    "gen_throughput", "gauge", "Tokens generated a second, over about the last second.", SCHEDULER
)
CACHE_HIT_RATE = Metric(
    "cache_hit_rate",
    "gauge",
    "Share of all prompt tokens since the start, or since the last flush, that were cached.",
    SCHEDULER,
)
UNCACHED_WAITING = _ours(
    "waiting_uncached_tokens", "gauge", "Prompt tokens of waiting answers that are not cached.", SCHEDULER
)
REPORT_AGE = _ours(
    "scheduler_report_age_seconds", "gauge", "Since a replica last said how busy it is.", SCHEDULER
)
REPLICA_UP = _ours("replica_up", "gauge", "1 for each replica that lives, 0 for one that is lost.", SCHEDULER)

# What each replica has done since the start.
QUEUE_TIME = Metric(
    "queue_time_seconds",
    "histogram",
    "From the arrival at the scheduler to the first step, of each answer that ran.",
    SCHEDULER,
)
REALTIME_TOKENS = Metric(
    "realtime_tokens_total",
    "counter",
    "Tokens computed in prefill (prefill_compute), found in the cache (prefill_cache), generated (decode).",
    (*SCHEDULER, "mode"),
)
RETRACTED = Metric(
    "num_retracted_requests_total", "counter", "Times that an answer had to give its memory back.", SCHEDULER
)
RETRACTED_INPUT = Metric(
    "num_retracted_input_tokens_total", "counter", "Prompt tokens of retracted answers.", SCHEDULER
)
RETRACTED_OUTPUT = Metric(
    "num_retracted_output_tokens_total",
    "counter",
    "Tokens that retracted answers had by then; none is lost.",
    SCHEDULER,
)
ABORTS = _ours(
    "aborts_total",
    "counter",
    "Answers that the scheduler refused or ended early, by cause.",
    (*SCHEDULER, "cause"),
)
TICK_TIME = _ours(
    "tick_seconds", "histogram", "What a turn of the scheduler took, if it ran a batch.", SCHEDULER
)
LEDGER_REPAIRS = _ours(
    "ledger_repairs_total", "counter", "Times that the books of KV memory had to be put in order.", SCHEDULER
)

# Answers, as clients see them, summed over all processes that serve HTTP.
REQUESTS = Metric("num_requests_total", "counter", "Answers that ended, however.", (*ENGINE, "is_streaming"))
ABORTED = Metric("num_aborted_requests_total", "counter", "Of these, those that were cut off.", ENGINE)
STRUCTURED = Metric(
    "num_so_requests_total", "counter", "Requests whose answers are held to a schema or grammar.", ENGINE
)
PROMPT_TOKENS = Metric(
    "prompt_tokens_total", "counter", "Prompt tokens, once the answer begins.", (*ENGINE, "is_streaming")
)
CACHED_TOKENS = Metric(
    "cached_tokens_total",
    "counter",
    "Prompt tokens that were in the prefix cache.",
    (*ENGINE, "cache_source"),
)
GENERATION_TOKENS = Metric(
    "generation_tokens_total", "counter", "Tokens generated, as they come.", (*ENGINE, "is_streaming")
)
TIME_TO_FIRST_TOKEN = Metric(
    "time_to_first_token_seconds",
    "histogram",
    "From the first byte of the HTTP request to the first token of an answer.",
    (*ENGINE, "is_streaming"),
)
INTER_TOKEN = Metric(
    "inter_token_latency_seconds",
    "histogram",
    "Between tokens of an answer; k tokens that come together count k times.",
    ENGINE,
)
PER_OUTPUT_TOKEN = Metric(
    "request_time_per_output_token_seconds",
    "histogram",
    "Of a whole answer: from first to last token, divided by the tokens behind the first.",
    (*ENGINE, "is_streaming"),
)
END_TO_END = Metric(
    "e2e_request_latency_seconds",
    "histogram",
    "From the first byte of the HTTP request to the end of an answer.",
    (*ENGINE, "is_streaming"),
)
SEGMENT = _ours(
    "request_segment_seconds",
    "histogram",
    "Where the time of a request went that was answered in full: its segments have no gap between them.",
    ("model_name", "segment"),
)
CONTEXT_LENGTH = Metric("context_len", "gauge", "The longest prompt and answer together.", ENGINE)

# Grammars.
NUM_GRAMMAR_QUEUE = Metric("num_grammar_queue_reqs", "gauge", "Requests that wait for their grammar.", ENGINE)
GRAMMARS = Metric("num_grammar_total", "counter", "Grammars that requests asked for.", ENGINE)
GRAMMAR_HITS = Metric("num_grammar_cache_hit_total", "counter", "Of these, those compiled before.", ENGINE)
GRAMMARS_ABORTED = Metric(
    "num_grammar_aborted_total", "counter", "Of these, those that were refused.", ENGINE
)
GRAMMAR_TIME = Metric(
    "grammar_compilation_time_seconds",
    "histogram",
    "To compile a grammar, waiting for its turn included.",
    ENGINE,
)

# HTTP.
HTTP_REQUESTS = Metric(
    "http_requests_total", "counter", "HTTP requests that have come.", ("model_name", "endpoint", "method")
)
HTTP_RESPONSES = Metric(
    "http_responses_total",
    "counter",
    "HTTP requests that were answered; 499: the client left before.",
    ("model_name", "endpoint", "status_code", "method"),
)
HTTP_ACTIVE = Metric(
    "http_requests_active", "gauge", "HTTP requests in the making.", ("model_name", "endpoint", "method")
)
CONNECTIONS = _ours("http_connections", "gauge", "Connections that are open.", WORKER)

# The processes themselves.
OPEN_ANSWERS = _ours(
    "open_answers", "gauge", "Answers in the making, by the process that serves them.", WORKER
)
COALESCED = _ours(
    "coalesced_chunks_total",
    "counter",
    "Pieces of streams that left together because their reader, or this process, was late.",
    WORKER,
)
LOOP_LAG = _ours(
    "event_loop_lag_seconds",
    "histogram",
    "How late the event loop was, asked every 20 ms while it serves.",
    WORKER,
)
DETOKENIZER_BACKLOG = _ours(
    "detokenizer_backlog",
    "gauge",
    "Most batches found waiting at once, since the last report.",
    ("model_name",),
)
DETOKENIZER_OPEN = _ours(
    "detokenizer_open_answers", "gauge", "Answers that it keeps text of.", ("model_name",)
)
DETOKENIZER_MERGED = _ours(
    "detokenizer_merged_batches_total",
    "counter",
    "Batches that were joined with others to catch up.",
    ("model_name",),
)
DETOKENIZER_COALESCED = _ours(
    "detokenizer_coalesced_chunks_total",
    "counter",
    "Pieces of answers that became one with others thereby.",
    ("model_name",),
)
PROCESS_CPU = Metric(
    "process_cpu_seconds_total", "counter", "CPU time of each process.", ("model_name", "component")
)
BUILD = _ours("build_info", "gauge", "Always 1; the version is a label.", ("model_name", "version"))

# In the order of the page.
GROUPS: dict[str, Sequence[Metric]] = {
    "How busy each replica is": (
        *(NUM_RUNNING, NUM_QUEUED, NUM_USED_TOKENS, TOKEN_USAGE, KV_USED, KV_EVICTABLE, KV_AVAILABLE),
        *(MAX_TOTAL_TOKENS, MAX_RUNNING, UTILIZATION, GEN_THROUGHPUT, CACHE_HIT_RATE, UNCACHED_WAITING),
        *(REPORT_AGE, REPLICA_UP),
    ),
    "What each replica has done": (
        *(QUEUE_TIME, TICK_TIME, REALTIME_TOKENS, RETRACTED, RETRACTED_INPUT, RETRACTED_OUTPUT, ABORTS),
        LEDGER_REPAIRS,
    ),
    "Answers, as clients see them": (
        *(
            REQUESTS,
            ABORTED,
            STRUCTURED,
            PROMPT_TOKENS,
            CACHED_TOKENS,
            GENERATION_TOKENS,
            TIME_TO_FIRST_TOKEN,
        ),
        *(INTER_TOKEN, PER_OUTPUT_TOKEN, END_TO_END, SEGMENT, CONTEXT_LENGTH),
    ),
    "Grammars": (NUM_GRAMMAR_QUEUE, GRAMMARS, GRAMMAR_HITS, GRAMMARS_ABORTED, GRAMMAR_TIME),
    "HTTP": (HTTP_REQUESTS, HTTP_RESPONSES, HTTP_ACTIVE, CONNECTIONS),
    "Processes": (
        *(OPEN_ANSWERS, COALESCED, LOOP_LAG, DETOKENIZER_BACKLOG, DETOKENIZER_OPEN, DETOKENIZER_MERGED),
        *(DETOKENIZER_COALESCED, PROCESS_CPU, BUILD),
    ),
}
METRICS: Sequence[Metric] = tuple(metric for group in GROUPS.values() for metric in group)
