"""All decoder layers in one call of the native kernels; two a layer where ranks add up over gloo in between.

For bfloat16. Takes the weights that `DecoderLayers.slices` asks for, quantised or not, and computes what DecoderLayers
computes, up to rounding: sums are float32, and what torch would store is rounded to bfloat16.
"""

from ctypes import Array, byref, pointer
from typing import Any

import torch

from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.shared_memory import SharedMemoryGroup
from srt.layers.attention.backend import PreparedAttention
from srt.layers.attention.native import NativeAttention, NativeBackend
from srt.layers.native import library as native
from srt.layers.native.linear import PackedMatrix
from srt.layers.rotary import Rotation
from srt.model_loader.shard import Weight, dense
from srt.models.decoder import attention_shape

VECTOR = 16  # the kernels take widths in whole vectors


def can_run_natively(config: ModelConfig, num_ranks: int) -> bool:
    """Whether the kernels have loops for these sizes."""
    features = config.intermediate_size
    sizes = [config.hidden_size, features]
    if config.qk_norm:
        sizes.append(config.head_dim)
    is_even_split = num_ranks == 1 or features % (2 * VECTOR) == 0  # MLP_UNIT
    return is_even_split and config.head_dim % 2 == 0 and all(size % VECTOR == 0 for size in sizes)


class NativeLayers:
    """Every layer of one rank."""

    def __init__(
        self,
        config: ModelConfig,
        weights: dict[str, Weight],
        group: TpGroup,
        library: native.KernelLibrary,
    ) -> None:
        self._library = library
        self._group = group
        self._shapes = [attention_shape(layer, config, group.rank) for layer in range(config.num_layers)]
        self._kept: list[PackedMatrix | torch.Tensor] = []  # what the structs point to
        self._layers: Array[native.LayerWeights] = (native.LayerWeights * config.num_layers)()
        for layer in range(config.num_layers):
            self._fill(self._layers[layer], f"model.layers.{layer}", config, weights)
        self._backend: NativeBackend | None = None
        self.num_bytes = sum(
            kept.num_bytes if isinstance(kept, PackedMatrix) else kept.nbytes for kept in self._kept
        )

    def __call__(
        self, stream: torch.Tensor, rotation: Rotation, attention: PreparedAttention
    ) -> torch.Tensor:
        """(T, hidden_size) to (T, hidden_size); may overwrite `stream`.

        In prefill, most tokens' outputs are read by nobody (LmHead looks at a row's last): the last layer computes
        their keys and values, and leaves the rest of them undone.
        """
        assert isinstance(attention, NativeAttention), "native layers go with native attention"
        self._bind(attention.backend)
        stream = stream.contiguous()
        wanted = attention.wanted_starts
        batch = byref(
            native.LayerBatch(
                attention=pointer(attention.batch),
                cosines=rotation.cos.data_ptr(),
                sines=rotation.sin.data_ptr(),
                rotary_dim=rotation.cos.shape[-1],
                wanted_starts=None if wanted is None else wanted.data_ptr(),
            )
        )
        group = self._group
        if isinstance(group, SharedMemoryGroup):
            group.check(self._run(batch, stream, byref(group.seat)))
            return stream
        if group.rank.size == 1:
            self._run(batch, stream, None)
            return stream
        for layer in self._layers:
            for block in (self._library.attention_block, self._library.mlp_block):
                summand = torch.empty_like(stream)
                block(byref(layer), batch, stream.data_ptr(), summand.data_ptr())
                stream = stream + group.all_reduce(summand)
        return stream

    def _run(self, batch: Any, stream: torch.Tensor, seat: Any) -> int:
        return int(self._library.layers(self._layers, len(self._layers), batch, stream.data_ptr(), seat))

    def _bind(self, backend: NativeBackend) -> None:
        """Where the keys and values are is known only once their pool has been made."""
        if self._backend is not backend:
            for layer, shape in zip(self._layers, self._shapes, strict=True):
                layer.shape = pointer(backend.shape(shape))
            self._backend = backend

    def _fill(
        self, layer: native.LayerWeights, prefix: str, config: ModelConfig, weights: dict[str, Weight]
    ) -> None:
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        queries_keys_values = [f"{attention}.{part}_proj" for part in "qkv"]
        layer.qkv = self._matrix(weights, queries_keys_values, has_bias=config.qkv_bias)
        # The sum over ranks must hold a bias once.
        leads = self._group.rank.is_leader
        layer.out = self._matrix(
            weights, [f"{attention}.o_proj"], has_bias=config.attention_out_bias, keeps_bias=leads
        )
        layer.gate_up = self._matrix(
            weights, [f"{mlp}.gate_proj", f"{mlp}.up_proj"], has_bias=config.mlp_bias
        )
        layer.down = self._matrix(weights, [f"{mlp}.down_proj"], has_bias=config.mlp_bias, keeps_bias=leads)
        layer.attention_norm = self._vector(weights, f"{prefix}.input_layernorm.weight")
        layer.mlp_norm = self._vector(weights, f"{prefix}.post_attention_layernorm.weight")
        if config.qk_norm:
            layer.query_norm = self._vector(weights, f"{attention}.q_norm.weight")
            layer.key_norm = self._vector(weights, f"{attention}.k_norm.weight")
        layer.eps = config.rms_norm_eps
        layer.hidden_size = config.hidden_size

    def _matrix(
        self, weights: dict[str, Weight], names: list[str], *, has_bias: bool, keeps_bias: bool = True
    ) -> native.Matrix:
        biases = [dense(weights.pop(f"{name}.bias"), torch.bfloat16) for name in names] if has_bias else []
        packed = PackedMatrix(
            self._library,
            [weights.pop(f"{name}.weight") for name in names],
            torch.cat(biases) if biases and keeps_bias else None,
        )
        self._kept.append(packed)
        return packed.matrix

    def _vector(self, weights: dict[str, Weight], name: str) -> int:
        values = dense(weights.pop(name), torch.bfloat16).contiguous()
        self._kept.append(values)
        return values.data_ptr()
