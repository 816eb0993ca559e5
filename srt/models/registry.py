"""Architecture to module. A module has a `CausalModel`; most are named after the `model_type` in config.json."""

from typing import Protocol, cast

import torch

from srt.configs.architectures import find_architecture
from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import TpGroup
from srt.distributed.rank import RankInfo
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import PreparedAttention
from srt.layers.native.library import KernelLibrary
from srt.model_loader.shard import Slice, Weight
from srt.util.registry import import_by_name

MODULES = {
    "llama": "srt.models.llama",
    "mistral": "srt.models.llama",
    "qwen2": "srt.models.llama",
    "qwen3": "srt.models.llama",
}


class CausalModel(Protocol):
    """One rank's model, whole."""

    num_bytes: int  # of its weights, about: norms are left out

    def __call__(self, batch: ForwardBatch, attention: PreparedAttention) -> torch.Tensor:
        """(S, vocab_size) logits in the model's type, the same bits on every rank."""
        ...


class ModelClass(Protocol):
    """How a model is made."""

    def __call__(
        self,
        config: ModelConfig,
        weights: dict[str, Weight],
        group: TpGroup,
        kernels: KernelLibrary | None = None,
    ) -> CausalModel:
        """From the weights that `slices` asked for; takes them out of the dict.

        With `kernels` it may compute natively in bfloat16, by quantised weights too; then it wants native attention.
        """
        ...

    def slices(self, config: ModelConfig, rank: RankInfo) -> dict[str, Slice]:
        """The weights that a rank is made of, by their names in the checkpoint."""
        ...


def find_model(config: ModelConfig) -> ModelClass:
    """The class that implements `config.architecture`. Raises StartupError that lists the supported ones."""
    architecture = find_architecture(config.architecture)
    module = import_by_name(MODULES, architecture.model_type, "model")
    return cast(ModelClass, module.CausalModel)
