"""Checkpoint names to parameter names: what the models ask for are Hugging Face's names of the whole causal model."""

import re

# Buffers that old checkpoints carry along; we compute them.
_NO_WEIGHTS = re.compile(r".*\.(rotary_emb\.inv_freq|rotary_emb\.(cos|sin)_cached|masked_bias|attn\.bias)")
# A checkpoint of the model without its head has the names without their first part.
_WITHOUT_HEAD = ("layers.", "embed_tokens.", "norm.")


def parameter_name(stored_name: str, *, tie_word_embeddings: bool) -> str | None:
    """The parameter that a stored tensor fills; None for one that is not needed."""
    if _NO_WEIGHTS.fullmatch(stored_name):
        return None
    if tie_word_embeddings and stored_name == "lm_head.weight":
        return None  # a copy of the embedding
    if stored_name.startswith(_WITHOUT_HEAD):
        return f"model.{stored_name}"
    return stored_name
