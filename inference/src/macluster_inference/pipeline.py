"""A model divided by layers: each rank holds some of them, and a token visits the ranks one after the other.

mlx-lm does the work: an architecture that can do this has `model.model.pipeline(group)`, which drops the other
ranks' layers (the last rank keeps the first ones), and sends and receives within the model. Here is what it does
not look at: whether that can work, and that ranks with fewer layers meet the others as often.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from .errors import EngineError, Kind
from .group import Group


def check(model: nn.Module, world_size: int, config: dict[str, Any]) -> None:
    """Prove that the whole, lazy model can be a pipeline of so many ranks; nothing is computed.

    Raises:
        EngineError: kind `does-not-split`.
    """
    stack = getattr(model, "model", None)
    if not hasattr(stack, "pipeline"):
        raise EngineError(
            Kind.DOES_NOT_SPLIT,
            f"mlx-lm has no pipeline for model_type {config.get('model_type')!r}; "
            "write runtime.parallel: tensor in the inventory, or choose another model",
        )
    layers = len(model.layers)
    if layers < world_size:
        raise EngineError(
            Kind.DOES_NOT_SPLIT, f"{layers} layers are too few for a pipeline of {world_size} ranks: each needs one"
        )
    _check_dtype(stack)


def _check_dtype(stack: nn.Module) -> None:
    """A rank takes what it receives for numbers as the embedding gives them; others would be read as garbage."""
    embed = getattr(stack, "embed_tokens", None)
    if embed is None:
        return
    tokens = mx.zeros((1, 2), dtype=mx.int32)
    given, made = embed(tokens).dtype, stack(tokens).dtype
    if given != made:
        raise EngineError(
            Kind.DOES_NOT_SPLIT,
            f"the embedding is {_name(given)}, the layers compute {_name(made)}: the ranks of a pipeline cannot hand "
            f"that on; convert the model with `mlx_lm.convert --dtype {_name(given)}`",
        )


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def divide(model: nn.Module, group: Group) -> None:
    """Drop the layers of the other ranks, whose weights are then never read."""
    model.model.pipeline(group.handle)


def parts(model: nn.Module, group: Group) -> list[nn.Module]:
    """This rank's layers, each a step of loading; as many steps on every rank, the last of them empty if need be."""
    layers = list(getattr(model, "layers", []))
    counts = group.sum([len(layers) if rank == group.rank else 0 for rank in range(group.size)])
    return layers + [nn.Module()] * (max(counts) - len(layers))
