"""Attention backend by the name that --attention-backend takes."""

from typing import Protocol, cast

from mem_cache.kv_pool import KVPool
from srt.layers.attention.backend import AttentionBackend
from srt.util.registry import import_by_name

MODULES = {
    "native": "srt.layers.attention.native",
    "torch_native": "srt.layers.attention.torch_native",
}


class _BackendModule(Protocol):
    def make_backend(self, pool: KVPool) -> AttentionBackend: ...


def make_attention_backend(name: str, pool: KVPool) -> AttentionBackend:
    """The named backend over `pool`. Each backend's module has a `make_backend(pool)`."""
    module = cast(_BackendModule, import_by_name(MODULES, name, "attention backend"))
    return module.make_backend(pool)
