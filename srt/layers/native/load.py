"""The native kernels of this process: built if need be, loaded once."""

from functools import cache

from srt.layers.native.build import Build, BuildError, build_library
from srt.layers.native.library import KernelLibrary
from srt.runtime_plan.plan import KernelFacts


def find_kernels() -> KernelFacts:
    """Whether there are kernels for this machine. Compiles them if nobody has yet: some seconds."""
    try:
        build = _build()
        library = kernels()
    except BuildError as error:
        return KernelFacts(are_there=False, reason=f"there are no native kernels: {error}")
    origin = f"compiled in {build.seconds:.1f} s" if build.seconds else "compiled at an earlier start"
    return KernelFacts(
        are_there=True,
        reason=f"C++ for this processor ({library.instructions}), {origin}",
        multiply_bfloat16=library.multiplies_bfloat16,
        know_amx=library.knows_tiles,
        use_amx=library.uses_tiles,
    )


@cache
def kernels() -> KernelLibrary:
    """The library. Raises BuildError."""
    return load_library(_build())


def load_library(build: Build) -> KernelLibrary:
    """A library that was built. Raises BuildError if it does not fit here."""
    try:
        return KernelLibrary(build.path)
    except (OSError, AttributeError) as error:
        raise BuildError(f"they cannot be loaded: {error}") from None


@cache
def _build() -> Build:
    return build_library()
