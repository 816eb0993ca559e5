import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sentencepiece
import transformers

from srt.configs.checkpoint import find_model
from srt.errors import StartupError
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.fakes import small_tokenizers as small
from tests.fakes.tiny_gguf import write_gguf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tokenizer.json and nothing else."""
    small.byte_level_bpe().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def write_config(folder: Path, name: str = "tokenizer_config.json", **content: object) -> None:
    (folder / name).write_text(json.dumps(content))


def test_a_folder_with_a_tokenizer_json_is_used_as_it_is(folder: Path) -> None:
    assert prepare_tokenizer(folder) == folder


def test_a_gguf_is_converted_once(smollm2_folder: Path) -> None:
    before = (smollm2_folder / "tokenizer.json").stat().st_mtime_ns
    assert prepare_tokenizer(find_model(None)) == smollm2_folder
    assert (smollm2_folder / "tokenizer.json").stat().st_mtime_ns == before


def test_a_folder_that_holds_one_gguf_is_that_file(smollm2_folder: Path) -> None:
    assert prepare_tokenizer(find_model(None).parent) == smollm2_folder


def test_a_conversion_leaves_nothing_unfinished(smollm2_folder: Path) -> None:
    assert not list(smollm2_folder.parent.glob(".unfinished-*"))


def test_the_chat_template_of_a_gguf_is_kept(smollm2_folder: Path) -> None:
    template = load_tokenizer(smollm2_folder).chat_template
    assert template is not None
    assert "SmolLM, trained by Hugging Face" in template


def test_a_sentencepiece_model_is_converted_by_two_servers_at_once(cache_dir: Path, tmp_path: Path) -> None:
    write_sentencepiece_model(tmp_path)
    with ThreadPoolExecutor(2) as servers:
        first, second = servers.map(prepare_tokenizer, [tmp_path, tmp_path])
    assert first == second
    assert len(list(first.parent.glob(f"{tmp_path.name}-*"))) == 1
    tokenizer = load_tokenizer(first)
    reference = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    for text in ("the quick brown fox", "  two spaces", "世界 unknown", "a\nb", "<s>the</s>"):
        ids = tokenizer.encode(text)
        assert ids == reference(text)["input_ids"]
        assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=True)


def write_sentencepiece_model(folder: Path) -> None:
    (folder / "corpus.txt").write_text("\n".join(small.CORPUS * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        minloglevel=2,
    )
    write_config(folder, tokenizer_class="LlamaTokenizer", bos_token="<s>", eos_token="</s>")
    write_config(folder, "config.json", model_type="llama")


def test_a_failed_conversion_says_the_childs_last_words(cache_dir: Path, tmp_path: Path) -> None:
    tokenizer = {"tokenizer.ggml.model": "unheard-of", "tokenizer.ggml.tokens": ["a"] * 3}
    path = write_gguf(tmp_path / "a.gguf", metadata=tokenizer)
    with pytest.raises(StartupError, match="unheard-of"):
        prepare_tokenizer(path)
    assert not list(cache_dir.glob("tokenizers/a-*"))


def test_a_folder_without_any_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="holds no tokenizer"):
        prepare_tokenizer(tmp_path)


def test_code_of_a_checkpoint_is_not_run(cache_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    write_config(tmp_path, tokenizer_class="Evil", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    write_config(tmp_path, "config.json", model_type="llama", auto_map={"AutoConfig": "evil.Evil"})
    with pytest.raises(StartupError, match="cannot convert"):
        prepare_tokenizer(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_cache_that_cannot_be_written_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOCKSTEP_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(StartupError, match="set LOCKSTEP_CACHE_DIR"):
        prepare_tokenizer(find_model(None))


def test_special_tokens_may_be_texts_or_objects(folder: Path) -> None:
    write_config(folder, bos_token={"content": "<|end|>", "lstrip": False}, eos_token="<think>")
    tokenizer = load_tokenizer(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|end|>", "<think>")
    assert tokenizer.bos_token_id is not None


def test_special_tokens_may_stand_in_the_older_file(folder: Path) -> None:
    write_config(folder, "special_tokens_map.json", bos_token="<|end|>", eos_token="<|end|>")
    write_config(folder, eos_token="<think>")
    tokenizer = load_tokenizer(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|end|>", "<think>")


def test_a_tokenizer_without_config_has_no_special_tokens_and_no_template(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.chat_template) == (None, None, None)


def test_of_named_templates_the_default_is_taken(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    write_config(folder, chat_template=named)
    assert load_tokenizer(folder).chat_template == "D"


def test_a_template_file_wins_over_the_config_and_the_users_over_both(folder: Path, tmp_path: Path) -> None:
    write_config(folder, chat_template="config")
    assert load_tokenizer(folder).chat_template == "config"
    (folder / "chat_template.jinja").write_text("file")
    assert load_tokenizer(folder).chat_template == "file"
    (tmp_path / "users.jinja").write_text("user's")
    assert load_tokenizer(folder, str(tmp_path / "users.jinja")).chat_template == "user's"


def test_a_users_template_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(StartupError, match="cannot read the chat template"):
        load_tokenizer(folder, str(folder / "absent.jinja"))


def test_a_broken_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(StartupError, match="cannot load the tokenizer"):
        load_tokenizer(folder)


def test_a_broken_config_is_refused(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(StartupError, match=r"cannot read .*tokenizer_config\.json"):
        load_tokenizer(folder)


def test_loading_a_tokenizer_loads_no_torch(smollm2_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import srt.tokenizer.chat_template, srt.tokenizer.load as load; "
        "folder = load.prepare_tokenizer(Path(sys.argv[1])); load.load_tokenizer(folder).encode('x'); "
        "sys.exit(len({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(find_model(None))]
    assert subprocess.run(command, check=False).returncode == 0
