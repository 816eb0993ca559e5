from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer as Backend

from srt.configs.checkpoint import find_model
from srt.tokenizer.fast_tokenizer import FastTokenizer
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Conversions of this run only, so that they are tried and leave nothing behind."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LOCKSTEP_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def smollm2_folder(cache_dir: Path) -> Path:
    """The default model's tokenizer, converted from its GGUF."""
    return prepare_tokenizer(find_model(None))


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> FastTokenizer:
    tokenizer = load_tokenizer(smollm2_folder)
    assert isinstance(tokenizer, FastTokenizer)
    return tokenizer


@pytest.fixture(scope="session")
def smollm2_backend(smollm2_folder: Path) -> Backend:
    """The same tokenizer as its package gives it, to compare with."""
    return Backend.from_file(str(smollm2_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def reference() -> transformers.PreTrainedTokenizerBase:
    """What transformers makes of the same GGUF file."""
    path = find_model(None)
    return transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
