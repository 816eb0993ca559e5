"""Llama, and the models that differ from it only in what ModelConfig says: Mistral, Qwen 2, Qwen 3.

Mistral has sliding windows, Qwen 2 biases on q, k and v, Qwen 3 norms on q and k; all are options of the blocks.
Next on the request's path: srt/layers/attention_layer.py
"""

from collections.abc import Mapping

import torch

from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.rank import RankInfo
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import PreparedAttention
from srt.layers.embedding import VocabEmbedding
from srt.layers.lm_head import LmHead
from srt.layers.native.library import KernelLibrary
from srt.layers.native.linear import NativeMethod
from srt.layers.norm import RMSNorm
from srt.layers.quantization.unquantized import prepare_plain
from srt.layers.rotary import RotaryEmbedding
from srt.model_loader.shard import Slice, padded_span, rows
from srt.models.decoder import DecoderLayers, Slices, Weights
from srt.models.native_layers import NativeLayers, can_run_natively
from srt.util.quantized_weight import QuantizedWeight

NOT_QUANTIZED: Mapping[str, QuantizedWeight] = {}


class CausalModel:
    """Embedding, layers, norm, head, as one rank has them."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        group: TpGroup,
        kernels: KernelLibrary | None = None,
        quantized: Mapping[str, QuantizedWeight] = NOT_QUANTIZED,
    ) -> None:
        vocab = padded_span(config.vocab_size, group.rank)
        embedding_weight = weights.pop("model.embed_tokens.weight")
        head_name = "model.embed_tokens.weight" if config.tie_word_embeddings else "lm_head.weight"
        head_weight = embedding_weight if config.tie_word_embeddings else weights.pop(head_name)
        self._embed = VocabEmbedding(embedding_weight, vocab.start, group)
        self._rotary = RotaryEmbedding(
            config.rope, dtype=embedding_weight.dtype, device=str(embedding_weight.device)
        )
        self._layers: DecoderLayers | NativeLayers
        if kernels is not None and can_run_natively(config, group.rank.size):
            self._layers = NativeLayers(config, weights, group, kernels, quantized)
        else:
            self._layers = DecoderLayers(config, weights, group)
        self._norm = RMSNorm(weights.pop("model.norm.weight"), config.rms_norm_eps)
        method = prepare_plain if kernels is None else NativeMethod(kernels, quantized.get(head_name))
        self._head = LmHead(head_weight, config.vocab_size, group, method=method)
        self.num_bytes = self._embed.num_bytes + self._layers.num_bytes + self._head.num_bytes

    @staticmethod
    def slices(config: ModelConfig, rank: RankInfo) -> Slices:
        """The weights that a rank is made of, by their names in the checkpoint."""
        vocab_rows = rows(padded_span(config.vocab_size, rank), config.vocab_size, config.hidden_size)
        wanted = {"model.embed_tokens.weight": vocab_rows, "model.norm.weight": Slice((config.hidden_size,))}
        wanted |= DecoderLayers.slices(config, rank)
        if not config.tie_word_embeddings:
            wanted["lm_head.weight"] = vocab_rows
        return wanted

    @staticmethod
    def taken_quantized(
        quantized: Mapping[str, QuantizedWeight], config: ModelConfig, rank: RankInfo
    ) -> list[str]:
        """Weights that need not be there in any other form. The embedding's rows are looked up, too."""
        if not can_run_natively(config, rank.size):
            return []
        return [name for name in quantized if name.startswith("model.layers.")]

    def __call__(self, batch: ForwardBatch, attention: PreparedAttention) -> torch.Tensor:
        """(S, vocab_size) logits in the model's type, the same bits on every rank."""
        stream = self._embed(batch.input_ids)  # (T, hidden_size)
        rotation = self._rotary.rotation(batch.positions)
        stream = self._layers(stream, rotation, attention)
        return self._head(self._norm(stream), batch)
