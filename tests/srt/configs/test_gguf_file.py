import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from srt.configs.checkpoint import find_model
from srt.configs.gguf_file import read_gguf
from srt.errors import StartupError
from tests.fakes.tiny_gguf import tiny_tensors, write_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(
        tmp_path / "tiny.gguf",
        metadata={
            "a.text": "hé",
            "a.flag": True,
            "a.list": ["x", "", "世界"],
            "a.numbers": [1, 2, 3],
            "a.real": 0.5,
        },
    )


def test_metadata_of_every_kind_is_read_back(tiny: Path) -> None:
    metadata = read_gguf(tiny).metadata
    assert metadata["general.architecture"] == "llama"
    assert (metadata["a.text"], metadata["a.flag"], metadata["a.real"]) == ("hé", True, 0.5)
    assert metadata["a.list"] == ["x", "", "世界"]
    assert metadata["a.numbers"] == [1, 2, 3]


def test_tensors_have_pytorch_shapes_and_their_own_bytes(tiny: Path) -> None:
    tensors = read_gguf(tiny).tensors
    for name, expected in tiny_tensors().items():
        assert tensors[name].shape == expected.shape
        assert np.array_equal(tensors[name].data.view("<f4"), expected.reshape(-1))


def test_the_default_models_header_equals_the_reference_readers() -> None:
    path = find_model(None)
    ours, reference = read_gguf(path), gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == fields
    assert list(ours.tensors) == [tensor.name for tensor in reference.tensors]
    for tensor in reference.tensors:
        found = ours.tensors[tensor.name]
        assert found.shape == tuple(reversed(tensor.shape.tolist()))
        assert found.type.name == tensor.tensor_type.name
        assert found.data.ctypes.data - ours.tensors["token_embd.weight"].data.ctypes.data == int(
            tensor.data_offset - reference.tensors[0].data_offset
        )
        assert found.data.size == tensor.n_bytes


def test_a_file_cut_anywhere_is_called_cut_short(tiny: Path) -> None:
    whole = tiny.read_bytes()
    for length in [*range(4, 1500, 7), len(whole) // 2, len(whole) - 1]:
        tiny.write_bytes(whole[:length])
        with pytest.raises(StartupError, match="cut short"):
            read_gguf(tiny)


@pytest.mark.parametrize("content", [b"", b"GG"])
def test_a_file_shorter_than_its_magic_is_called_cut_short(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(StartupError, match="cut short"):
        read_gguf(tmp_path / "a.gguf")


def test_something_else_is_called_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04" * 10)
    with pytest.raises(StartupError, match="no GGUF file"):
        read_gguf(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("version", "named"), [(1, "version 1 "), (4, "version 4 "), (3 << 24, "big-endian")]
)
def test_an_unknown_version_is_named(tiny: Path, version: int, named: str) -> None:
    tiny.write_bytes(b"GGUF" + struct.pack("<I", version) + tiny.read_bytes()[8:])
    with pytest.raises(StartupError, match=named):
        read_gguf(tiny)


def test_version_2_is_read(tiny: Path) -> None:
    tiny.write_bytes(b"GGUF" + struct.pack("<I", 2) + tiny.read_bytes()[8:])
    assert "token_embd.weight" in read_gguf(tiny).tensors


def test_an_unsupported_tensor_type_is_named(tmp_path: Path) -> None:
    blocks = np.zeros((4, 40), np.uint8)
    path = write_gguf(
        tmp_path / "a.gguf", raw_tensors={"output.weight": (blocks, gguf.GGMLQuantizationType.Q8_1)}
    )
    with pytest.raises(StartupError, match=r"tensor output\.weight has type Q8_1"):
        read_gguf(path)


def test_a_part_of_a_split_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="split model"):
        read_gguf(write_gguf(tmp_path / "a.gguf", metadata={"split.count": 3}))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="No such file"):
        read_gguf(tmp_path / "absent.gguf")


def test_a_missing_key_and_a_wrong_type_are_named(tiny: Path) -> None:
    file = read_gguf(tiny)
    with pytest.raises(StartupError, match=r"lacks a\.missing"):
        file.integer("a.missing")
    with pytest.raises(StartupError, match=r"a\.text is not a whole number"):
        file.integer("a.text")


def test_equal_numbers_of_all_layers_count_as_one_number(tmp_path: Path) -> None:
    file = read_gguf(write_gguf(tmp_path / "a.gguf", metadata={"same": [4, 4, 4], "mixed": [4, 8]}))
    assert file.integer("same") == 4
    with pytest.raises(StartupError, match="differs from layer to layer"):
        file.integer("mixed")
