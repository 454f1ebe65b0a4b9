#!/usr/bin/env python3
"""Ask the pinned mlx-lm itself what a rank of each model holds: the truth that `macluster sizing` must equal.

    python oracle.py [--models A,B] [--ranks 1,2,…] [--bits 0,4,8] > table.json

For every model of configs.json, unquantised and as `mlx_lm.convert -q` quantises it, and for every number of ranks: the
model is built lazily, split with a stand-in for the group, and its arrays' shapes are added up; nothing is ever
computed. Splitting alone proves too little (it looks at columns, not at heads), so a forward pass of two tokens is
traced over the split model as well: MLX checks all shapes while it builds the graph.

    "N": [parameters, bytes]      what the first rank holds; every rank holds the same
    "N": "why it does not split"

Under `pipelines` the same for the models that mlx-lm can divide by layers: what the rank holds that holds most.
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


class Rank:
    """All that `shard` and `pipeline` ask of a group."""

    def __init__(self, size: int, rank: int = 0) -> None:
        self._size = size
        self._rank = rank

    def rank(self) -> int:
        """From 0."""
        return self._rank

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
        model.shard(Rank(ranks))
        result = held(model)
        logits = model(mx.zeros((1, 2), dtype=mx.int32))
    except Exception as error:  # noqa: BLE001 - the text is the result
        return " ".join(f"{type(error).__name__}: {error}".split())
    return result if logits.ndim == 3 else f"logits of shape {logits.shape}"


def largest_stages(config: dict[str, Any], bits: int, sizes: list[int]) -> dict[str, list[int] | str] | None:
    """For each number of ranks what the rank holds that holds most, or why not; None without a pipeline."""
    model = build(config, bits)
    stack = getattr(model, "model", None)
    if not hasattr(stack, "pipeline"):
        return None
    layers = list(stack.layers)

    def stage(size: int, rank: int) -> list[int]:
        stack.layers = list(layers)
        stack.pipeline(Rank(size, rank))
        return held(model)

    result: dict[str, list[int] | str] = {}
    for size in sizes:
        try:
            result[str(size)] = max((stage(size, rank) for rank in range(size)), key=lambda pair: pair[1])
        except ValueError as error:
            result[str(size)] = str(error)
    return result


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
    sizes = [int(ranks) for ranks in options.ranks.split(",")]
    pipelines = {}
    for name in names:
        by_bits = {bits: largest_stages(configs[name], int(bits), sizes) for bits in options.bits.split(",")}
        if all(by_bits.values()):
            pipelines[name] = by_bits
    made_with = {package: importlib.metadata.version(package) for package in ("mlx", "mlx-lm")}
    json.dump({"made_with": made_with, "models": table, "pipelines": pipelines}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
