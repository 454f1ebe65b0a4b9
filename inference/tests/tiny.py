"""Models small enough to be fast on any machine: random weights, and one token per byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import deepseek_v3, qwen3
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "vocab_size": 260,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 257,
}
DEEPSEEK_CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": None,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "rms_norm_eps": 1e-6,
    "vocab_size": 260,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "eos_token_id": 257,
}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_tiny_qwen3(folder: Path) -> Path:
    """Write the model that divides by heads, over 2 and 4."""
    return _write(folder, CONFIG, qwen3)


def write_tiny_sixths(folder: Path) -> Path:
    """Write a model that splits over 2, 3 and 6."""
    config = {**CONFIG, "num_attention_heads": 6, "num_key_value_heads": 6, "intermediate_size": 192}
    return _write(folder, config, qwen3)


def write_tiny_thirds(folder: Path) -> Path:
    """Write a model that splits over 3 and not over 2, as SmolLM2-135M does."""
    config = {**CONFIG, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 192}
    return _write(folder, config, qwen3)


def write_tiny_deepseek(folder: Path, heads: int = 5) -> Path:
    """Write the model that divides by layers; with five heads by nothing else."""
    config = {**DEEPSEEK_CONFIG, "num_attention_heads": heads, "num_key_value_heads": heads}
    return _write(folder, config, deepseek_v3)


def _write(folder: Path, config: dict[str, Any], architecture: Any) -> Path:
    """Write the model, in two weight files with an index."""
    folder.mkdir(parents=True)
    mx.random.seed(7)
    weights = dict(tree_flatten(architecture.Model(architecture.ModelArgs.from_dict(config)).parameters()))
    # Far from zero, so that different tokens have clearly different logits.
    weights = {name: mx.random.normal(array.shape) * 0.3 for name, array in sorted(weights.items())}
    names = list(weights)
    weight_map = {}
    for number, part in enumerate((names[:12], names[12:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        mx.save_safetensors(str(folder / file), {name: weights[name] for name in part})
        weight_map.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(config))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*alphabet, "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in list(vocabulary)[256:]])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def copy(model: Path, to: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(model, to))
