"""Tokens to text: whole characters, stop strings wherever they fall, reasoning apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from macluster_inference.generate import Sampling
from macluster_inference.text import Text, TextStream, default_sampling
from tiny import CONFIG, copy


@pytest.fixture(scope="module")
def text(tiny: Path) -> Text:
    return Text.load(tiny, CONFIG, 4096, trust_remote_code=False)


def pieces(stream: TextStream, tokens: list[int]) -> list[tuple[bool, str]]:
    out = []
    for token in tokens:
        out += stream.add(token)
        if stream.stopped:
            return out
    return out + stream.finish()


def joined(parts: list[tuple[bool, str]], reasoning: bool = False) -> str:
    return "".join(piece for kind, piece in parts if kind is reasoning)


def test_characters_of_several_bytes_come_whole(text: Text) -> None:
    words = "Grüße 🦀 你好"
    tokens = text.tokenizer.encode(words)
    assert len(tokens) == len(words.encode())
    parts = pieces(text.stream([], []), tokens)
    assert joined(parts) == words
    assert all("\ufffd" not in piece for _, piece in parts)


def test_half_a_character_at_the_end_is_shown_as_such(text: Text) -> None:
    tokens = text.tokenizer.encode("a🦀")[:-1]
    assert joined(pieces(text.stream([], []), tokens)).startswith("a\ufffd")


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["\n\n"], "one two"),
        (["two"], "one "),
        (["wo\n", "never"], "one t"),
        (["three!", "thre"], "one two\n\n"),
        (["absent"], "one two\n\nthree"),
        # A stop that only begins is text after all.
        (["three or four"], "one two\n\nthree"),
    ],
)
def test_a_stop_string_ends_the_text_before_it(text: Text, stops: list[str], expected: str) -> None:
    stream = text.stream([], stops)
    assert joined(pieces(stream, text.tokenizer.encode("one two\n\nthree"))) == expected
    assert stream.stopped == ("absent" not in stops and "three or four" not in stops)


def test_reasoning_is_told_apart(text: Text) -> None:
    tokens = text.tokenizer.encode("<think>hm, 2?</think>two")
    stream = TextStream(text.tokenizer.detokenizer, ("<think>", "</think>"), inside=False, stops=[])
    parts = pieces(stream, tokens)
    assert (joined(parts, reasoning=True), joined(parts)) == ("hm, 2?", "two")
    # The template had opened the reasoning already.
    stream = TextStream(text.tokenizer.detokenizer, ("<think>", "</think>"), inside=True, stops=[])
    parts = pieces(stream, text.tokenizer.encode("hm</think>two"))
    assert (joined(parts, reasoning=True), joined(parts)) == ("hm", "two")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, Sampling()),
        ({"eos_token_id": 2}, Sampling()),
        ({"do_sample": False, "temperature": 0.7}, Sampling()),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20}, Sampling(0.6, 0.95, 20)),
        ({"temperature": 0.6}, Sampling(0.6)),
        ({"do_sample": True}, Sampling(1.0)),
    ],
)
def test_default_sampling_is_the_models(tmp_path: Path, settings: dict | None, expected: Sampling) -> None:
    if settings is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    assert default_sampling(tmp_path) == expected


def test_end_tokens_of_the_generation_config_count(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    assert {7, 9} <= set(Text.load(folder, CONFIG, 4096, trust_remote_code=False).eos)
