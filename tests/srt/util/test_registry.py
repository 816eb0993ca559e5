"""Modules by name."""

import math

import pytest

from srt.configs.architectures import ARCHITECTURES
from srt.errors import StartupError
from srt.layers.attention.registry import MODULES as ATTENTION_MODULES
from srt.models.registry import MODULES as MODEL_MODULES
from srt.util.registry import import_by_name


def test_a_name_gives_its_module() -> None:
    assert import_by_name({"calculator": "math"}, "calculator", "tool") is math


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(StartupError, match="there is no tool called hammer, only saw, drill"):
        import_by_name({"saw": "math", "drill": "math"}, "hammer", "tool")


def test_every_architecture_has_a_model() -> None:
    for architecture in ARCHITECTURES.values():
        module = import_by_name(MODEL_MODULES, architecture.model_type, "model")
        assert hasattr(module, "CausalModel")


def test_every_attention_backend_can_be_made() -> None:
    for name in ATTENTION_MODULES:
        assert hasattr(import_by_name(ATTENTION_MODULES, name, "attention backend"), "make_backend")
