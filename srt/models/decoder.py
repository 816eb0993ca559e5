"""The blocks of a decoder-only transformer: attention and gated MLP behind norms, around a residual stream.

Each block says which slices of which checkpoint tensors it wants and is then made of them. Options are
ModelConfig's.
"""

import torch

from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.rank import RankInfo
from srt.layers.activation import silu_and_multiply
from srt.layers.attention.backend import AttentionShape, PreparedAttention
from srt.layers.attention_layer import AttentionLayer
from srt.layers.linear import ColumnLinear, RowLinear
from srt.layers.norm import RMSNorm
from srt.layers.rotary import Rotation, rotate
from srt.model_loader.shard import Slice, Span, columns, even_span, rows

Slices = dict[str, Slice]
Weights = dict[str, torch.Tensor]  # blocks take theirs out, so that nothing is held twice

MLP_UNIT = 32  # features; products over odd numbers of them are slow


def kv_head_span(config: ModelConfig, rank: RankInfo) -> Span:
    """This rank's key-value heads; its query heads are those that share them."""
    return even_span(config.num_kv_heads, rank)


def attention_shape(layer: int, config: ModelConfig, rank: RankInfo) -> AttentionShape:
    """One layer's attention on this rank."""
    kv_heads = kv_head_span(config, rank).length
    return AttentionShape(
        layer=layer,
        num_heads=kv_heads * (config.num_heads // config.num_kv_heads),
        num_kv_heads=kv_heads,
        head_dim=config.head_dim,
        window=config.layer_windows[layer],
        scale=config.head_dim**-0.5,
    )


class DecoderAttention:
    """q, k and v in one product, positions, attention, output."""

    def __init__(
        self, prefix: str, layer: int, config: ModelConfig, weights: Weights, group: TpGroup
    ) -> None:
        names = [f"{prefix}.{part}_proj" for part in "qkv"]
        self._qkv = ColumnLinear(
            [weights.pop(f"{name}.weight") for name in names],
            [weights.pop(f"{name}.bias") for name in names] if config.qkv_bias else None,
        )
        self._out = RowLinear(
            weights.pop(f"{prefix}.o_proj.weight"),
            weights.pop(f"{prefix}.o_proj.bias") if config.attention_out_bias else None,
            group,
        )
        self._query_norm = self._key_norm = None
        if config.qk_norm:
            self._query_norm = RMSNorm(weights.pop(f"{prefix}.q_norm.weight"), config.rms_norm_eps)
            self._key_norm = RMSNorm(weights.pop(f"{prefix}.k_norm.weight"), config.rms_norm_eps)
        self._shape = attention_shape(layer, config, group.rank)
        self._attend = AttentionLayer(self._shape)
        self.num_bytes = self._qkv.num_bytes + self._out.num_bytes

    @staticmethod
    def slices(prefix: str, config: ModelConfig, rank: RankInfo) -> Slices:
        """What this rank wants."""
        hidden, head_dim = config.hidden_size, config.head_dim
        kv_span = kv_head_span(config, rank).scaled(head_dim)
        query_span = kv_span.scaled(config.num_heads // config.num_kv_heads)
        num_queries, num_keys = config.num_heads * head_dim, config.num_kv_heads * head_dim
        wanted = {
            f"{prefix}.q_proj.weight": rows(query_span, num_queries, hidden),
            f"{prefix}.k_proj.weight": rows(kv_span, num_keys, hidden),
            f"{prefix}.v_proj.weight": rows(kv_span, num_keys, hidden),
            f"{prefix}.o_proj.weight": columns(query_span, hidden, num_queries),
        }
        if config.qkv_bias:
            wanted[f"{prefix}.q_proj.bias"] = rows(query_span, num_queries)
            wanted[f"{prefix}.k_proj.bias"] = rows(kv_span, num_keys)
            wanted[f"{prefix}.v_proj.bias"] = rows(kv_span, num_keys)
        if config.attention_out_bias:
            wanted[f"{prefix}.o_proj.bias"] = Slice((hidden,))
        if config.qk_norm:
            wanted[f"{prefix}.q_norm.weight"] = Slice((head_dim,))
            wanted[f"{prefix}.k_norm.weight"] = Slice((head_dim,))
        return wanted

    def __call__(
        self, hidden: torch.Tensor, rotation: Rotation, attention: PreparedAttention
    ) -> torch.Tensor:
        """(T, hidden_size) to (T, hidden_size)."""
        heads, kv_heads = self._shape.num_heads, self._shape.num_kv_heads
        by_head = self._qkv(hidden).view(-1, heads + 2 * kv_heads, self._shape.head_dim)
        values = by_head[:, heads + kv_heads :]
        if self._query_norm is None or self._key_norm is None:
            turned = rotate(by_head[:, : heads + kv_heads], rotation)
            queries, keys = turned[:, :heads], turned[:, heads:]
        else:
            queries = rotate(self._query_norm(by_head[:, :heads]), rotation)
            keys = rotate(self._key_norm(by_head[:, heads : heads + kv_heads]), rotation)
        return self._out(self._attend(queries, keys, values, attention))


class DecoderMlp:
    """SwiGLU: gate and up in one product, down."""

    def __init__(self, prefix: str, config: ModelConfig, weights: Weights, group: TpGroup) -> None:
        names = [f"{prefix}.gate_proj", f"{prefix}.up_proj"]
        self._gate_and_up = ColumnLinear(
            [weights.pop(f"{name}.weight") for name in names],
            [weights.pop(f"{name}.bias") for name in names] if config.mlp_bias else None,
        )
        self._down = RowLinear(
            weights.pop(f"{prefix}.down_proj.weight"),
            weights.pop(f"{prefix}.down_proj.bias") if config.mlp_bias else None,
            group,
        )
        self.num_bytes = self._gate_and_up.num_bytes + self._down.num_bytes

    @staticmethod
    def slices(prefix: str, config: ModelConfig, rank: RankInfo) -> Slices:
        """What this rank wants."""
        hidden, features = config.hidden_size, config.intermediate_size
        span = even_span(features, rank, MLP_UNIT)
        wanted = {
            f"{prefix}.gate_proj.weight": rows(span, features, hidden),
            f"{prefix}.up_proj.weight": rows(span, features, hidden),
            f"{prefix}.down_proj.weight": columns(span, hidden, features),
        }
        if config.mlp_bias:
            wanted[f"{prefix}.gate_proj.bias"] = rows(span, features)
            wanted[f"{prefix}.up_proj.bias"] = rows(span, features)
            wanted[f"{prefix}.down_proj.bias"] = Slice((hidden,))
        return wanted

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """(T, hidden_size) to (T, hidden_size)."""
        return self._down(silu_and_multiply(self._gate_and_up(hidden)))


class DecoderLayer:
    """Attention and MLP, each behind a norm and added to the residual stream."""

    def __init__(
        self, prefix: str, layer: int, config: ModelConfig, weights: Weights, group: TpGroup
    ) -> None:
        self._attention = DecoderAttention(f"{prefix}.self_attn", layer, config, weights, group)
        self._mlp = DecoderMlp(f"{prefix}.mlp", config, weights, group)
        self._norm_before_attention = RMSNorm(
            weights.pop(f"{prefix}.input_layernorm.weight"), config.rms_norm_eps
        )
        self._norm_before_mlp = RMSNorm(
            weights.pop(f"{prefix}.post_attention_layernorm.weight"), config.rms_norm_eps
        )
        self.num_bytes = self._attention.num_bytes + self._mlp.num_bytes

    @staticmethod
    def slices(prefix: str, config: ModelConfig, rank: RankInfo) -> Slices:
        """What this rank wants."""
        return {
            f"{prefix}.input_layernorm.weight": Slice((config.hidden_size,)),
            f"{prefix}.post_attention_layernorm.weight": Slice((config.hidden_size,)),
            **DecoderAttention.slices(f"{prefix}.self_attn", config, rank),
            **DecoderMlp.slices(f"{prefix}.mlp", config, rank),
        }

    def __call__(
        self, stream: torch.Tensor, rotation: Rotation, attention: PreparedAttention
    ) -> torch.Tensor:
        """(T, hidden_size) to (T, hidden_size)."""
        stream = stream + self._attention(self._norm_before_attention(stream), rotation, attention)
        return stream + self._mlp(self._norm_before_mlp(stream))


class DecoderLayers:
    """Every layer of one rank, one after another."""

    def __init__(self, config: ModelConfig, weights: Weights, group: TpGroup) -> None:
        self._layers = [
            DecoderLayer(f"model.layers.{layer}", layer, config, weights, group)
            for layer in range(config.num_layers)
        ]
        self.num_bytes = sum(layer.num_bytes for layer in self._layers)

    @staticmethod
    def slices(config: ModelConfig, rank: RankInfo) -> Slices:
        """What this rank wants."""
        wanted: Slices = {}
        for layer in range(config.num_layers):
            wanted |= DecoderLayer.slices(f"model.layers.{layer}", config, rank)
        return wanted

    def __call__(
        self, stream: torch.Tensor, rotation: Rotation, attention: PreparedAttention
    ) -> torch.Tensor:
        """(T, hidden_size) to (T, hidden_size)."""
        for layer in self._layers:
            stream = layer(stream, rotation, attention)
        return stream
