"""When and where a request is served, as far as its body says so: the same names in every generating API."""

from typing import Annotated

import msgspec

Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
# Seconds, up to a year.
TimeoutS = Annotated[float, msgspec.Meta(gt=0, le=366 * 24 * 3600)]


class SchedulingFields(msgspec.Struct, kw_only=True):
    """For a protocol that has no other base: a struct has one, so those that do repeat these lines."""

    cache_salt: str | None = None
    extra_key: str | None = None
    priority: Priority | None = None
    timeout_s: TimeoutS | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
