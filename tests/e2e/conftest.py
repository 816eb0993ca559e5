"""The tiny checkpoint that end-to-end tests serve: SmolLM2's tokenizer on two random layers."""

from pathlib import Path

import pytest

from srt.configs.checkpoint import find_model
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("tiny") / "model"
    tokenizer = prepare_tokenizer(find_model(None))
    write_tiny_checkpoint(
        folder,
        tokenizer=tokenizer,
        vocab_size=load_tokenizer(tokenizer).vocab_size,
        max_position_embeddings=8192,
    )
    return str(folder)
