"""The weight files of a model folder, read by their headers alone: are they all there, and whole?

mlx-lm loads `model*.safetensors`, whatever the index says, and its distributed loader runs on random numbers
where a tensor is missing. So files, headers and index are compared here before anything is built.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import EngineError, Kind

INDEX_NAME = "model.safetensors.index.json"
MAX_HEADER_BYTES = 100_000_000
SAMPLE_BYTES = 64 * 1024
SAMPLES_PER_FILE = 16

_DTYPE_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
}


@dataclass(frozen=True)
class Tensor:
    """One entry of a safetensors header; `size` is in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class WeightFile:
    """One whole safetensors file; `size` is in bytes."""

    path: Path
    size: int
    tensors: tuple[Tensor, ...]


def _incomplete(message: str) -> EngineError:
    return EngineError(Kind.MODEL_INCOMPLETE, message)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the model folder.

    Raises:
        EngineError: kind `model-incomplete`, naming the file.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _incomplete(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise _incomplete(f"{path} does not hold a JSON object")
    return value


def read_weights(folder: Path) -> list[WeightFile]:
    """All weight files of a model, proven whole, in the order of their names.

    Checked: every file the index names is there and is one mlx-lm loads; no file holds less or more bytes
    than its header declares; each tensor's bytes fit its shape and dtype; no tensor is in two files; index and
    headers name the same tensors in the same files.

    Raises:
        EngineError: kind `model-incomplete`, naming the file or tensor.
    """
    present = sorted(folder.glob("model*.safetensors"))
    index = _read_index(folder)
    if index is not None:
        for name in sorted(set(index.values())):
            if not (folder / name).is_file():
                raise _incomplete(f"{name} is missing in {folder} (named by {INDEX_NAME})")
            if folder / name not in present:
                raise _incomplete(f"{INDEX_NAME} names {name}, which is not a model*.safetensors of {folder}")
    if not present:
        raise _incomplete(f"no model*.safetensors in {folder}")
    files = [_read_header(path) for path in present]
    owner: dict[str, str] = {}
    for file in files:
        for tensor in file.tensors:
            if tensor.name in owner:
                raise _incomplete(f"{tensor.name} is in {owner[tensor.name]} and again in {file.path.name}")
            owner[tensor.name] = file.path.name
    if index is not None:
        _compare(index, owner)
    return files


def _read_index(folder: Path) -> dict[str, str] | None:
    path = folder / INDEX_NAME
    if not path.exists():
        return None
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise _incomplete(f"{path} has no weight_map from tensors to files")
    if any("/" in name or name.startswith(".") for name in weight_map.values()):
        raise _incomplete(f"{path} names a file outside the model folder")
    return weight_map


def _compare(index: dict[str, str], owner: dict[str, str]) -> None:
    for name, file in sorted(index.items()):
        if owner.get(name) != file:
            where = f"it is in {owner[name]}" if name in owner else "no file has it"
            raise _incomplete(f"{INDEX_NAME} places {name} in {file}, but {where}")
    extra = sorted(owner.keys() - index.keys())
    if extra:
        raise _incomplete(f"{owner[extra[0]]} holds {extra[0]}, which {INDEX_NAME} does not name")


def _read_header(path: Path) -> WeightFile:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            (length,) = struct.unpack("<Q", _exactly(file.read(8), 8, path))
            if length > MAX_HEADER_BYTES:
                raise _incomplete(f"{path.name} is not a safetensors file (header of {length} bytes)")
            header = json.loads(_exactly(file.read(length), length, path))
    except (OSError, ValueError) as error:
        raise _incomplete(f"cannot read the header of {path}: {error}") from error
    if not isinstance(header, dict):
        raise _incomplete(f"{path.name} has a header that is not an object")
    header.pop("__metadata__", None)
    tensors, end = [], 0
    for name, entry in header.items():
        tensor, end_of_tensor = _read_entry(path, name, entry)
        tensors.append(tensor)
        end = max(end, end_of_tensor)
    declared = 8 + length + end
    if size != declared:
        word = "truncated" if size < declared else "damaged"
        raise _incomplete(f"{path.name} is {word}: it has {size} bytes, its header declares {declared} ({path})")
    return WeightFile(path, size, tuple(sorted(tensors, key=lambda t: t.name)))


def _exactly(data: bytes, length: int, path: Path) -> bytes:
    if len(data) != length:
        raise _incomplete(f"{path.name} is truncated within its header ({path})")
    return data


def _read_entry(path: Path, name: str, entry: Any) -> tuple[Tensor, int]:
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
        begin, end = (int(n) for n in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise _incomplete(f"{path.name} has a malformed header entry for {name}") from error
    bits = _DTYPE_BITS.get(dtype)
    if begin < 0 or (bits is not None and (end - begin) * 8 != math.prod(shape) * bits):
        raise _incomplete(f"{path.name}: {name} has {end - begin} bytes for {dtype} {list(shape)}")
    return Tensor(name, dtype, shape, end - begin), end


def digest(folder: Path, files: list[WeightFile], *, with_code: bool) -> bytes:
    """SHA-256 (32 bytes) by which ranks tell whether they hold the same model.

    Covers, with names: every byte of the folder's `*.json` (config, generation config, tokenizer, index),
    `*.jinja`, `*.txt`, `*.jsonl`, `*.model` and `*.tiktoken` files, and of `*.py` when remote code is on; of each
    weight file its size, the name, dtype, shape and size of each tensor, and up to 16 evenly spaced samples of
    64 KiB, the first and last bytes among them. Not covered: weight bytes between samples.
    """
    total = hashlib.sha256()
    patterns = ["*.json", "*.jinja", "*.txt", "*.jsonl", "*.model", "*.tiktoken"]
    if with_code:
        patterns.append("*.py")
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}):
        total.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    for file in files:
        total.update(f"{file.path.name}\0{file.size}\n".encode())
        for tensor in file.tensors:
            total.update(f"{tensor.name}\0{tensor.dtype}\0{list(tensor.shape)}\0{tensor.size}\n".encode())
        with file.path.open("rb") as stream:
            last = max(0, file.size - SAMPLE_BYTES)
            for step in range(SAMPLES_PER_FILE):
                stream.seek(last * step // (SAMPLES_PER_FILE - 1))
                total.update(stream.read(SAMPLE_BYTES))
    return total.digest()
