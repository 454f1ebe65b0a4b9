"""From a model folder to this rank's share of the weights, with proof that nothing is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.utils import get_total_parameters, load_model, maybe_set_recommended_wired_limit

from . import pipeline, weights
from .config import Parallel
from .errors import EngineError, Kind
from .group import Group

DEFAULT_CONTEXT = 2048
"""Tokens, for a model whose config does not say."""

PROGRESS_EVERY_S = 1.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class Checked:
    """A model folder found complete and divisible; nothing is in memory yet."""

    path: Path
    config: dict[str, Any]
    files: list[weights.WeightFile]
    digest: bytes
    trust_remote_code: bool
    parallel: Parallel = Parallel.TENSOR

    @property
    def tensors(self) -> int:
        """How many tensors the files hold."""
        return sum(len(file.tensors) for file in self.files)

    @property
    def context(self) -> int:
        """The longest sequence, in tokens."""
        value = _setting(self.config, "max_position_embeddings")
        return value if isinstance(value, int) and value > 0 else DEFAULT_CONTEXT


@dataclass(frozen=True)
class Loaded:
    """This rank's share, in memory. Sizes are in bytes."""

    model: nn.Module
    parameters: int
    size: int
    peak_memory: int


class _Shape:
    """Enough of `mx.distributed.Group` to try a split without a group."""

    def __init__(self, size: int) -> None:
        self._size = size

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return self._size


def _setting(config: dict[str, Any], name: str) -> Any:
    """A value of config.json, or of the text part of a multimodal one."""
    text = config.get("text_config")
    if name not in config and isinstance(text, dict):
        return text.get(name)
    return config.get(name)


def check(path: Path, world_size: int, *, trust_remote_code: bool, parallel: Parallel = Parallel.TENSOR) -> Checked:
    """Prove that the folder is complete and that the model divides among so many ranks in that way.

    Every parameter the model has is compared, name and shape, with what the files hold after mlx-lm's own
    renaming: mlx-lm does that comparison, and this function makes sure it is asked to.

    Raises:
        EngineError: kind `model-missing`, `model-incomplete`, `model-mismatch`, `does-not-split` or `config`.
    """
    if not path.is_dir():
        raise EngineError(Kind.MODEL_MISSING, f"there is no model folder {path}")
    if not (path / "config.json").is_file():
        raise EngineError(Kind.MODEL_MISSING, f"config.json is missing in {path}")
    config = weights.read_json(path / "config.json")
    if parallel is Parallel.TENSOR:
        check_split(config, world_size)
    files = weights.read_weights(path)
    checked = Checked(
        path,
        config,
        files,
        weights.digest(path, files, with_code=trust_remote_code),
        trust_remote_code,
        parallel,
    )
    model = build(checked)
    if world_size > 1 and parallel is Parallel.PIPELINE:
        pipeline.check(model, world_size, config)
    elif world_size > 1:
        _try_split(model, world_size, config)
    return checked


def check_split(config: dict[str, Any], world_size: int) -> None:
    """Attention heads and key/value heads must both divide: `shard` itself does not look at heads.

    Raises:
        EngineError: kind `does-not-split`, with the numbers.
    """
    heads = _setting(config, "num_attention_heads")
    kv_heads = _setting(config, "num_key_value_heads") or heads
    for name, count in (("attention heads", heads), ("key/value heads", kv_heads)):
        if isinstance(count, int) and count % world_size:
            raise EngineError(
                Kind.DOES_NOT_SPLIT,
                f"{count} {name} cannot be divided among {world_size} ranks; {_possible(heads, kv_heads)}",
            )


def _possible(*counts: Any) -> str:
    sizes = [n for n in range(1, 17) if all(count % n == 0 for count in counts if isinstance(count, int))]
    return "this model divides into " + ", ".join(map(str, sizes))


def build(checked: Checked) -> nn.Module:
    """The whole model, lazily: shapes are known, no weight is read.

    Raises:
        EngineError: kind `model-incomplete`, `model-mismatch`, or `config` for a model that needs its own code.
    """
    if "model_file" in checked.config and not checked.trust_remote_code:
        raise EngineError(
            Kind.CONFIG,
            f"{checked.path} brings its own code ({checked.config['model_file']}); "
            "set runtime.trust_remote_code to run it",
        )
    try:
        model, _ = load_model(checked.path, lazy=True, strict=True, trust_remote_code=checked.trust_remote_code)
    except FileNotFoundError as error:
        raise EngineError(Kind.MODEL_INCOMPLETE, f"{checked.path}: {error}") from error
    except Exception as error:  # model classes raise whatever they like
        raise _explain(checked, error) from error
    return model


def _explain(checked: Checked, error: Exception) -> EngineError:
    text = " ".join(str(error).split())
    if "not supported" in text and "Model type" in text:
        return EngineError(Kind.MODEL_MISMATCH, f"mlx-lm does not know this model: {text}")
    if len(text) > 600:
        text = text[:600] + " …"
    return EngineError(Kind.MODEL_INCOMPLETE, f"{checked.path} does not fit its config.json: {text}")


def _try_split(model: nn.Module, world_size: int, config: dict[str, Any]) -> None:
    if not hasattr(model, "shard"):
        raise EngineError(
            Kind.DOES_NOT_SPLIT,
            f"mlx-lm cannot split model_type {config.get('model_type')!r} among ranks (it has no shard())",
        )
    try:
        model.shard(_Shape(world_size))
    except Exception as error:  # model classes raise whatever they like
        raise EngineError(Kind.DOES_NOT_SPLIT, f"{world_size} ranks: {error}") from error


def load(checked: Checked, group: Group, progress: Callable[[int, int, bool], None]) -> Loaded:
    """Read this rank's share into memory, layer by layer and in step with the other ranks.

    `progress(done, total, failed)` is called by all ranks after the model is built and after each layer, with bytes;
    it may raise to stop.

    Raises:
        EngineError: kind `model-incomplete`, when a file changed since it was checked.
    """
    maybe_set_recommended_wired_limit()
    model = _in_step(partial(_build_share, checked, group), partial(progress, 0, 0), checked)
    total = _size(model)
    done = 0
    for part in [*pipeline.parts(model, group), model]:
        done = total if part is model else done + _size(part)
        _in_step(partial(mx.eval, part.parameters()), partial(progress, done, total), checked)
    mx.clear_cache()
    return Loaded(model, get_total_parameters(model), total, mx.get_peak_memory())


def _in_step(action: Callable[[], _T], tell: Callable[[bool], None], checked: Checked) -> _T:
    """Do something that may fail on one rank alone, and tell the others before failing."""
    try:
        result = action()
    except Exception as error:
        tell(True)
        if isinstance(error, EngineError):
            raise
        raise EngineError(Kind.MODEL_INCOMPLETE, f"{checked.path}: {error}") from error
    tell(False)
    return result


def _build_share(checked: Checked, group: Group) -> nn.Module:
    if weights.read_weights(checked.path) != checked.files:
        raise EngineError(Kind.MODEL_INCOMPLETE, f"the files in {checked.path} changed since they were checked")
    model = build(checked)
    if group.size > 1 and checked.parallel is Parallel.PIPELINE:
        pipeline.divide(model, group)
    elif group.size > 1:
        model.shard(group.handle)
    return model


def _size(module: nn.Module) -> int:
    return sum(array.nbytes for _, array in tree_flatten(module.parameters()))


class Throttle:
    """Lets an action through at most once per interval (seconds)."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last = -every_s

    def ready(self) -> bool:
        """Whether the interval has passed since the last time."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return False
        self._last = now
        return True
