"""When a request is served, as far as its body says so: types that every generating API uses for the same names."""

from typing import Annotated

import msgspec

Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
# Seconds, up to a year.
TimeoutS = Annotated[float, msgspec.Meta(gt=0, le=366 * 24 * 3600)]
