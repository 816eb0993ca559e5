"""`grammar_vocabulary`: a model's tokens as grammars see them, the same in every process of a server."""

from srt.configs.model_config import ModelConfig
from srt.constrained.grammar import Vocabulary
from srt.tokenizer.tokenizer import Tokenizer


def grammar_vocabulary(tokenizer: Tokenizer, config: ModelConfig) -> Vocabulary:
    """Special tokens and those that end texts are none of a text, so no grammar ever asks for one."""
    return Vocabulary.of(
        lambda token_id: tokenizer.token_bytes(token_id, skip_special_tokens=True),
        num_tokens=tokenizer.vocab_size,
        size=config.vocab_size,
        never=config.eos_token_ids,
    )
