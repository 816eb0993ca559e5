"""Llama, and the models that differ from it only in what ModelConfig says: Mistral, Qwen 2, Qwen 3.

Mistral has sliding windows, Qwen 2 biases on q, k and v, Qwen 3 norms on q and k; all are options of the blocks.
Next on the request's path: srt/layers/attention_layer.py
"""

import torch

from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.rank import RankInfo
from srt.forward_batch import ForwardBatch, Prediction
from srt.layers.attention.backend import PreparedAttention
from srt.layers.embedding import EmbeddingTable, PlainTable, VocabEmbedding
from srt.layers.lm_head import LmHead, PlainHead, PreparedHead
from srt.layers.native.library import KernelLibrary
from srt.layers.native.linear import NativeHead, NativeTable, PackedMatrix, fits
from srt.layers.norm import RMSNorm
from srt.layers.quantization.unquantized import prepare_plain
from srt.layers.rotary import RotaryEmbedding
from srt.model_loader.shard import Slice, Weight, dense, padded_span, rows
from srt.models.decoder import DecoderLayers, Slices
from srt.models.native_layers import NativeLayers, can_run_natively
from srt.util.quantized_weight import QuantizedWeight


class CausalModel:
    """Embedding, layers, norm, head, as one rank has them."""

    def __init__(
        self,
        config: ModelConfig,
        weights: dict[str, Weight],
        group: TpGroup,
        kernels: KernelLibrary | None = None,
    ) -> None:
        vocab = padded_span(config.vocab_size, group.rank)
        norm = weights.pop("model.norm.weight")
        assert isinstance(norm, torch.Tensor), "vectors are never quantised"
        table, head = _table_and_head(config, weights, kernels, norm.dtype)
        self._embed = VocabEmbedding(table, vocab.start, group)
        self._rotary = RotaryEmbedding(config.rope, dtype=norm.dtype, device=str(norm.device))
        self._layers: DecoderLayers | NativeLayers
        if kernels is not None and can_run_natively(config, group.rank.size):
            self._layers = NativeLayers(config, weights, group, kernels)
        else:
            plain = {name: dense(weights.pop(name), norm.dtype) for name in list(weights)}
            self._layers = DecoderLayers(config, plain, group)
            weights |= plain  # what it had no use for
        self._head = LmHead(RMSNorm(norm, config.rms_norm_eps), head, config.vocab_size, group)
        self.num_bytes = self._embed.num_bytes + self._layers.num_bytes
        if not config.tie_word_embeddings or isinstance(table, PlainTable):
            self.num_bytes += self._head.num_bytes

    @staticmethod
    def slices(config: ModelConfig, rank: RankInfo) -> Slices:
        """The weights that a rank is made of, by their names in the checkpoint."""
        vocab_rows = rows(padded_span(config.vocab_size, rank), config.vocab_size, config.hidden_size)
        wanted = {"model.embed_tokens.weight": vocab_rows, "model.norm.weight": Slice((config.hidden_size,))}
        wanted |= DecoderLayers.slices(config, rank)
        if not config.tie_word_embeddings:
            wanted["lm_head.weight"] = vocab_rows
        return wanted

    def __call__(self, batch: ForwardBatch, attention: PreparedAttention) -> Prediction:
        """One forward pass."""
        stream = self._embed(batch.input_ids)  # (T, hidden_size)
        rotation = self._rotary.rotation(batch.positions)
        stream = self._layers(stream, rotation, attention)
        return self._head(stream, batch)


def _table_and_head(
    config: ModelConfig, weights: dict[str, Weight], kernels: KernelLibrary | None, dtype: torch.dtype
) -> tuple[EmbeddingTable, PreparedHead]:
    """Where both are one matrix, the kernels read rows out of what they multiply by: it is held once."""
    embedding = weights.pop("model.embed_tokens.weight")
    head = embedding if config.tie_word_embeddings else weights.pop("lm_head.weight")
    if kernels is None or not fits(head):
        return _table(embedding, kernels, dtype), PlainHead(prepare_plain(dense(head, dtype), None))
    packed = PackedMatrix(kernels, [head], None)
    table = NativeTable(packed) if config.tie_word_embeddings else _table(embedding, kernels, dtype)
    return table, NativeHead(packed)


def _table(embedding: Weight, kernels: KernelLibrary | None, dtype: torch.dtype) -> EmbeddingTable:
    if kernels is not None and isinstance(embedding, QuantizedWeight) and fits(embedding):
        return NativeTable(PackedMatrix(kernels, [embedding], None))
    return PlainTable(dense(embedding, dtype))
