"""Tiny random checkpoints, written by transformers as users' are, into a temporary folder.

Same arguments, same weights. They are drawn large, so that logits differ clearly and greedy text varies.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers

# Six query heads in three groups: three ranks can share them, two must share them unevenly.
SHAPE: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


def make_tiny_model(
    architecture: str = "LlamaForCausalLM",
    *,
    seed: int = 0,
    std: float = 0.3,
    has_twins: bool = False,
    **settings: Any,
) -> transformers.PreTrainedModel:
    """The reference model. `settings` go to its configuration, over SHAPE's.

    With `has_twins` the second half of the vocabulary has the logits of the first: every token ties with another.
    """
    model_class = getattr(transformers, architecture)
    config = model_class.config_class(**{**SHAPE, **settings})
    model: transformers.PreTrainedModel = model_class(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            weight.normal_(std=std, generator=generator)
            if name.endswith("norm.weight"):
                weight.add_(1.0)
        if has_twins:
            rows = model.get_output_embeddings().weight
            half = len(rows) // 2
            rows[half : 2 * half] = rows[:half]
    return model


def write_tiny_checkpoint(
    folder: Path,
    architecture: str = "LlamaForCausalLM",
    *,
    tokenizer: Path | None = None,
    seed: int = 0,
    std: float = 0.3,
    has_twins: bool = False,
    max_shard_size: str = "1GB",
    **settings: Any,
) -> Path:
    """`make_tiny_model`'s model as a Hugging Face folder; `tokenizer` is a folder whose tokenizer is copied along.

    With a tokenizer, give its vocabulary's size as `vocab_size`.
    """
    model = make_tiny_model(architecture, seed=seed, std=std, has_twins=has_twins, **settings)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    if tokenizer is not None:
        for name in TOKENIZER_FILES:
            if (tokenizer / name).exists():
                shutil.copy(tokenizer / name, folder / name)
    return folder
