"""The conversion of the test model."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest
from transformers import AutoTokenizer

from engines import environment
from macluster_inference import convert_smollm2, weights
from macluster_inference.convert_smollm2 import convert


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_the_command_line_writes_the_same_bytes_every_time(gguf: Path, smollm2: Path, tmp_path: Path) -> None:
    out = tmp_path / "again" / "SmolLM2-135M"
    command = [sys.executable, "-m", "macluster_inference.convert_smollm2", str(gguf), str(out)]
    subprocess.run(command, check=True, env=environment({}))
    assert digests(out) == digests(smollm2)
    assert [p.name for p in out.parent.iterdir()] == [out.name]


def test_all_tensors_are_there_in_four_files(smollm2: Path) -> None:
    files = weights.read_weights(smollm2)
    assert len(files) == 4
    assert all(file.tensors for file in files)
    # 30 layers of 9, the embedding and the last norm.
    assert sum(len(file.tensors) for file in files) == 272
    assert {t.dtype for file in files for t in file.tensors} == {"F32"}


def test_the_tokenizer_splits_digits_and_keeps_special_tokens_whole(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    assert tokenizer.encode("<|im_start|>")[0] == 1
    assert len(tokenizer.encode("2026")) == 4
    text = "Grüße, 你好, 🦀 and 1234!\n\tdone"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_an_existing_folder_is_left_alone(gguf: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "precious").touch()
    with pytest.raises(FileExistsError):
        convert(gguf, out)
    assert [p.name for p in out.iterdir()] == ["precious"]


def test_a_failure_leaves_nothing(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert_smollm2, "_write_tokenizer", full)
    # The weights are not what this is about.
    monkeypatch.setattr(convert_smollm2, "_weights", lambda _: {"a": mx.zeros(4)})
    with pytest.raises(OSError, match="No space"):
        convert(gguf, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
