"""Lockstep, proven by real processes, in shared memory and over gloo, each with its own hash seed and clock."""

import dataclasses
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from managers.ipc import IpcAddresses, Receiver
from managers.messages import Failed, LauncherInput
from tests.fakes.rank_hosts import RankHosts
from tests.managers.scheduler.faults import FAULTS
from tests.managers.scheduler.lockstep_rank import Job, RankReport, read_report, run_actor, serve_alone
from tests.managers.scheduler.solo import Answer, SoloGrammar, solo
from tests.managers.scheduler.traffic import Traffic

NUM_TURNS = 200
RUN_ACTOR = f"{run_actor.__module__}:{run_actor.__name__}"


@pytest.fixture(scope="module")
def hosts() -> Iterator[RankHosts]:
    with RankHosts(3, preload=run_actor.__module__) as hosts:
        yield hosts


@pytest.fixture
def addresses() -> Iterator[IpcAddresses]:
    addresses = IpcAddresses.create()
    yield addresses
    addresses.remove()


def run_ranks(hosts: RankHosts, job: Job, limit_s: float = 60.0) -> list[int]:
    return hosts.run(RUN_ACTOR, [(job, rank) for rank in range(job.size)], limit_s)


@pytest.mark.parametrize(
    ("size", "seed", "slow_rank", "overlaps", "in_memory"),
    [(2, 7, 1, False, False), (3, 8, 0, False, True), (2, 9, 0, True, True), (3, 10, 1, True, False)],
)
def test_ranks_agree_and_say_what_one_rank_says(
    hosts: RankHosts,
    addresses: IpcAddresses,
    size: int,
    seed: int,
    slow_rank: int,
    overlaps: bool,
    in_memory: bool,
) -> None:
    job = Job(
        addresses=addresses,
        size=size,
        seed=seed,
        num_turns=NUM_TURNS,
        slow_rank=slow_rank,
        overlaps=overlaps,
        meets_in_memory=in_memory,
    )
    check_agreement_of_ranks(hosts, job)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "seed", "slow_rank", "overlaps"), [(2, 11, 1, False), (3, 14, 2, False), (3, 13, 0, True)]
)
def test_ranks_agree_for_10000_turns(
    hosts: RankHosts, addresses: IpcAddresses, size: int, seed: int, slow_rank: int, overlaps: bool
) -> None:
    job = Job(
        addresses=addresses, size=size, seed=seed, num_turns=10_000, slow_rank=slow_rank, overlaps=overlaps
    )
    report = check_agreement_of_ranks(hosts, job, limit_s=1200.0)
    statuses = {end.reason.status_code for end in report.finished.values()}
    # 400: the longest prompt and answer do not fit into the smallest memory.
    assert statuses - {400} == {200, 503, 504}, "the traffic is not mixed"


def check_agreement_of_ranks(hosts: RankHosts, job: Job, limit_s: float = 60.0) -> RankReport:
    assert run_ranks(hosts, job, limit_s) == [0] * job.size
    reports = [read_report(job, rank) for rank in range(job.size)]
    alone = serve_alone(dataclasses.replace(job, size=1, slow_rank=None))
    assert len({report.string_hash for report in reports}) == job.size, "the ranks hash alike"
    for report in reports:
        assert report.digest == alone.digest
        assert report.output_hash == alone.output_hash
        assert report.token_ids == alone.token_ids
    check_answers(job, alone)
    assert alone.num_retractions > 0
    assert alone.num_idle_turns > 0
    return alone


def check_answers(job: Job, report: RankReport) -> None:
    """Every request has ended: with its solo answer, or, if it was aborted or refused, with a beginning of it."""
    traffic = Traffic(job.seed, job.num_turns)
    for _ in range(job.num_turns):
        traffic.receive(0.0)
    assert report.finished.keys() == traffic.requests.keys()
    num_whole = 0
    for request_id, request in traffic.requests.items():
        end, token_ids = report.finished[request_id], report.token_ids[request_id]
        grammar = request.grammar and SoloGrammar(
            traffic.grammars[request.grammar.grammar_id], request.grammar.begins_after
        )
        expected = solo(np.frombuffer(request.input_ids, np.int32).tolist(), request.sampling, grammar)
        if end.reason.type == "abort":
            assert token_ids == expected.token_ids[: len(token_ids)]
        else:
            num_whole += 1
            assert expected == Answer(
                token_ids, end.reason.type, end.reason.matched, end.text_end, end.num_trimmed_tokens
            )
    assert len(traffic.requests) // 4 < num_whole < len(traffic.requests), "the traffic is not mixed"


@pytest.mark.parametrize(
    ("fault", "size", "faulty_rank"),
    [
        *((fault, 2, 1) for fault in FAULTS),
        *((fault, 3, 2) for fault in ("other_slot", "other_token")),
        *((fault, 3, 0) for fault in ("lost_request", "other_eviction", "other_token", "early_end")),
    ],
)
def test_one_rank_that_errs_stops_the_server_within_one_turn(
    hosts: RankHosts, addresses: IpcAddresses, fault: str, size: int, faulty_rank: int
) -> None:
    fault_turn = random.Random(f"{fault} {size} {faulty_rank}").randint(15, 60)
    job = Job(
        addresses=addresses,
        size=size,
        seed=8,
        num_turns=1000,
        fault=fault,
        faulty_rank=faulty_rank,
        fault_turn=fault_turn,
    )
    words: Receiver[LauncherInput] = Receiver(addresses.launcher_input, LauncherInput)
    exit_codes = run_ranks(hosts, job)
    (first, *_) = words.receive(1.0)
    words.close()
    assert exit_codes == [1] * size
    assert isinstance(first, Failed)
    found = re.match(
        r"turn (\d+): rank (\d) (and rank 0 decided differently\. They differ in: |cannot plan )",
        first.message,
    )
    assert found is not None, first.message
    reported, rank = int(found[1]), int(found[2])
    happened = read_report(job, faulty_rank).fault_turn
    assert fault_turn <= happened <= reported <= happened + 1, first.message
    assert rank == faulty_rank or faulty_rank == 0
    assert f"Rank 0 planned for turn {reported}: " in first.message
    assert f"Rank {rank} planned for turn {reported}: " in first.message
