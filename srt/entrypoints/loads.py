"""/v1/loads and /get_load: how busy each replica is, out of memory, for balancers."""

import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

import srt
from srt.engine_client import EngineClient, LoadSnapshot
from srt.errors import InvalidRequest

# All that SGLang knows. There is nothing to tell beyond core yet, which is no reason to fail a balancer that asks.
SECTIONS = frozenset({"core", "memory", "spec", "lora", "disagg", "queues", "all"})


class Loads:
    """The two endpoints."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def loads(self, request: Request) -> Response:
        """GET /v1/loads?dp_rank=&include=core,…&format=json|prometheus."""
        query = request.query_params
        if unknown := sorted(set(query.get("include", "core").split(",")) - SECTIONS):
            raise InvalidRequest(f"include: there is no section {unknown[0][:40]!r}", param="include")
        snapshots = _select(self._client.loads(), query.get("dp_rank"))
        rows = [_to_row(snapshot) for snapshot in snapshots]
        match query.get("format", "json"):
            case "json":
                body = {"timestamp": time.time(), "version": srt.__version__, "loads": rows}
                return JSONResponse(body)
            case "prometheus":
                return PlainTextResponse(_to_prometheus(rows), media_type="text/plain; version=0.0.4")
            case _:
                raise InvalidRequest("format must be json or prometheus", param="format")

    async def get_load(self, request: Request) -> Response:
        """GET /get_load: the array that SGLang's gateway polls; num_tokens counts what waits as well."""
        return JSONResponse(
            [
                {
                    "dp_rank": load.dp_rank,
                    "num_reqs": load.num_running_reqs + load.num_waiting_reqs,
                    "num_waiting_reqs": load.num_waiting_reqs,
                    "num_tokens": load.num_used_tokens + load.num_waiting_uncached_tokens,
                }
                for load in self._client.loads()
                if load.is_alive
            ]
        )


def _select(snapshots: Sequence[LoadSnapshot], dp_rank: str | None) -> Sequence[LoadSnapshot]:
    if dp_rank is None:
        return snapshots
    selected = [snapshot for snapshot in snapshots if str(snapshot.dp_rank) == dp_rank]
    if not selected:
        raise InvalidRequest(f"there is no dp_rank {dp_rank[:40]!r}", param="dp_rank")
    return selected


def _to_row(load: LoadSnapshot) -> dict[str, Any]:
    return {
        "timestamp": time.time() - load.age_s,
        "dp_rank": load.dp_rank,
        "is_alive": load.is_alive,
        "num_running_reqs": load.num_running_reqs,
        "num_waiting_reqs": load.num_waiting_reqs,
        "num_waiting_uncached_tokens": load.num_waiting_uncached_tokens,
        "num_used_tokens": load.num_used_tokens,
        "num_total_tokens": load.num_used_tokens + load.num_waiting_uncached_tokens,
        "num_active_tokens": load.num_used_tokens,
        "num_cached_tokens": load.num_cached_tokens,
        "max_total_num_tokens": load.max_total_num_tokens,
        "max_running_requests": load.max_running_requests,
        "token_usage": load.num_used_tokens / max(1, load.max_total_num_tokens),
        "utilization": load.num_running_reqs / max(1, load.max_running_requests),
        "gen_throughput": load.gen_throughput,
        "cache_hit_rate": load.cache_hit_rate,
    }


def _to_prometheus(rows: Sequence[dict[str, Any]]) -> str:
    """Gauges, one a field, labelled by replica."""
    lines = []
    for name in sorted(rows[0].keys() - {"dp_rank", "timestamp"}) if rows else ():
        lines.append(f"# TYPE lockstep_load_{name} gauge")
        lines += [f'lockstep_load_{name}{{dp_rank="{row["dp_rank"]}"}} {+row[name]}' for row in rows]
    return "".join(f"{line}\n" for line in lines)
