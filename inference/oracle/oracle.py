#!/usr/bin/env python3
"""Ask the pinned mlx-lm itself what a rank of each model holds: the truth that `macluster sizing` must equal.

    python oracle.py [--models A,B] [--ranks 1,2,…] [--bits 0,4,8] > table.json

For every model of configs.json, unquantised and as `mlx_lm.convert -q` quantises it, and for every number of ranks: the
model is built lazily, split with a stand-in for the group, and its arrays' shapes are added up; nothing is ever
computed. Splitting alone proves too little (it looks at columns, not at heads), so a forward pass of two tokens is
traced over the split model as well: MLX checks all shapes while it builds the graph.

    "N": [parameters, bytes]      what the first rank holds; every rank holds the same
    "N": "why it does not split"
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import _get_classes

GROUP_SIZE = 64
HALF = 2
"""Bytes of a floating-point weight in memory, but for those that mlx-lm keeps in float32."""


class Rank0:
    """All that `shard` asks of a group."""

    def __init__(self, size: int) -> None:
        self._size = size

    def rank(self) -> int:
        """The first."""
        return 0

    def size(self) -> int:
        """Number of ranks."""
        return self._size


def build(config: dict[str, Any], bits: int) -> nn.Module:
    """The lazy model, quantised when `bits` is not 0."""
    model_class, arguments = _get_classes(config)
    model = model_class(arguments.from_dict(deepcopy(config)))
    if bits:
        own = getattr(model, "quant_predicate", None)

        def choose(path: str, module: nn.Module) -> bool | dict[str, Any]:
            if not hasattr(module, "to_quantized") or module.weight.shape[-1] % GROUP_SIZE:
                return False
            return own(path, module) if own else True

        nn.quantize(model, GROUP_SIZE, bits, class_predicate=choose)
    return model


def arrays(model: nn.Module) -> Iterator[tuple[str, nn.Module, dict[str, mx.array]]]:
    """Every module with the parameters that are its own; MLX does not count names that begin with an underscore."""
    for path, module in model.named_modules():
        own = {k: v for k, v in module.items() if isinstance(v, mx.array) and not k.startswith("_")}
        if own:
            yield path, module, own


def held(model: nn.Module) -> list[int]:
    """Parameters and bytes."""
    narrow = getattr(model, "cast_predicate", lambda _: True)
    parameters = size = 0
    for path, module, own in arrays(model):
        packed = "scales" in own
        for name, array in own.items():
            floating = mx.issubdtype(array.dtype, mx.floating) and narrow(f"{path}.{name}")
            size += array.size * (HALF if floating else array.dtype.size)
            if packed and name in ("scales", "biases"):
                continue
            parameters += array.size * 32 // module.bits if packed and name == "weight" else array.size
    return [parameters, size]


def one(config: dict[str, Any], bits: int, ranks: int) -> list[int] | str:
    """What the first rank holds, or why the model does not split."""
    model = build(config, bits)
    if not hasattr(model, "shard"):
        return "mlx-lm has no shard() for it"
    try:
        model.shard(Rank0(ranks))
        result = held(model)
        logits = model(mx.zeros((1, 2), dtype=mx.int32))
    except Exception as error:  # noqa: BLE001 - the text is the result
        return " ".join(f"{type(error).__name__}: {error}".split())
    return result if logits.ndim == 3 else f"logits of shape {logits.shape}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", help="names, separated by commas [default: all]")
    parser.add_argument("--ranks", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--bits", default="0,4,8")
    options = parser.parse_args()
    # The pass that is traced must not wait for other ranks.
    mx.distributed.all_sum = lambda x, **_: x
    mx.distributed.all_gather = lambda x, **_: x
    configs = json.loads(Path(__file__).with_name("configs.json").read_text())
    names = options.models.split(",") if options.models else list(configs)
    table = {
        name: {
            bits: {ranks: one(configs[name], int(bits), int(ranks)) for ranks in options.ranks.split(",")}
            for bits in options.bits.split(",")
        }
        for name in names
    }
    made_with = {package: importlib.metadata.version(package) for package in ("mlx", "mlx-lm")}
    json.dump({"made_with": made_with, "models": table}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
