"""Rank 0's side of text: prompts to tokens, tokens to text. No other rank sees any."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from mlx_lm.generate import TextStateMachine
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from . import weights
from .errors import EngineError, Kind, RequestError
from .generate import Sampling
from .protocol import Request

DEFAULT_MAX_TOKENS = 512


class Text:
    """The tokenizer of the served model, safe to use from several HTTP threads."""

    def __init__(self, tokenizer: TokenizerWrapper, context: int) -> None:
        self.tokenizer = tokenizer
        self.context = context
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path, config: dict[str, Any], context: int, *, trust_remote_code: bool) -> Text:
        """Load the tokenizer of a model folder.

        Raises:
            EngineError: kind `model-incomplete`, or `config` for a tokenizer that needs its own code.
        """
        eos = config.get("eos_token_id")
        generation = path / "generation_config.json"
        if generation.is_file():
            eos = weights.read_json(generation).get("eos_token_id") or eos
        try:
            tokenizer = load_tokenizer(path, {"trust_remote_code": trust_remote_code}, eos_token_ids=eos)
        except Exception as error:  # tokenizers raise whatever they like
            if "trust_remote_code" in str(error):
                message = f"the tokenizer of {path} brings its own code; set runtime.trust_remote_code to run it"
                raise EngineError(Kind.CONFIG, message) from error
            raise EngineError(Kind.MODEL_INCOMPLETE, f"the tokenizer of {path} does not load: {error}") from error
        return cls(tokenizer, context)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return len(self.tokenizer)

    @property
    def eos(self) -> list[int]:
        """The tokens that end an answer."""
        return sorted(self.tokenizer.eos_token_ids)

    def tokenize(self, request: Request) -> list[int]:
        """The prompt as tokens.

        Raises:
            RequestError: 400, when the chat template refuses the messages or the prompt is too long.
        """
        with self._lock:
            tokens = self._encode(request)
        if not tokens:
            raise RequestError(400, "the prompt has no tokens", code="invalid_value")
        wanted = request.max_tokens or 1
        if len(tokens) + wanted > self.context:
            raise RequestError(
                400,
                f"the context of this model is {self.context} tokens; the prompt has {len(tokens)} "
                f"and the answer may have {wanted}",
                param="messages" if request.messages is not None else "prompt",
                code="context_length_exceeded",
            )
        return tokens

    def _encode(self, request: Request) -> list[int]:
        if request.messages is not None:
            return self._chat(request.messages, request.template_arguments)
        if not isinstance(request.prompt, str):
            return list(request.prompt or [])
        try:
            return self.tokenizer.encode(request.prompt)
        except Exception as error:  # half a surrogate pair, for one
            raise RequestError(400, f"the prompt cannot be tokenised: {error}", param="prompt") from error

    def _chat(self, messages: list[dict[str, Any]], arguments: dict[str, Any]) -> list[int]:
        if not self.tokenizer.has_chat_template:
            raise RequestError(400, "this model has no chat template; use /v1/completions", param="messages")
        try:
            return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, **arguments))
        except Exception as error:  # a template raises whatever it likes
            raise RequestError(400, f"the chat template refuses this: {error}", param="messages") from error

    def limit(self, request: Request, prompt_tokens: int) -> int:
        """How many tokens the answer may have."""
        return request.max_tokens or min(DEFAULT_MAX_TOKENS, self.context - prompt_tokens)

    def stream(self, prompt: list[int], stops: list[str]) -> TextStream:
        """A fresh decoder for one answer."""
        tokenizer = self.tokenizer
        thinking = (tokenizer.think_start, tokenizer.think_end) if tokenizer.has_thinking else None
        inside = thinking is not None and tokenizer.rfind_think_start(prompt) > tokenizer.rfind_think_end(prompt)
        return TextStream(tokenizer.detokenizer, thinking, inside, stops)


class TextStream:
    """Tokens in, pieces of text out: whole characters, no stop string, reasoning told from answer."""

    def __init__(self, detokenizer: Any, thinking: tuple[str, str] | None, inside: bool, stops: list[str]) -> None:
        ends = [(stop, None) for stop in stops]
        start, end = thinking or ("", "")
        machine = TextStateMachine(
            {
                "normal": [*ends, *([(start, "reasoning")] if start else [])],
                "reasoning": [*ends, *([(end, "normal")] if end else [])],
            }
        )
        self._machine = machine
        self._state = machine.make_state("reasoning" if inside else "normal")
        self._detokenizer = detokenizer

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come."""
        return self._state[0] is None

    def add(self, token: int) -> list[tuple[bool, str]]:
        """Take one token; returns pieces of (is reasoning, text)."""
        self._detokenizer.add_token(token)
        return self._split(self._detokenizer.last_segment)

    def finish(self) -> list[tuple[bool, str]]:
        """What was held back, at the end of an answer."""
        self._detokenizer.finalize()
        pieces = self._split(self._detokenizer.last_segment)
        if not self.stopped:
            state = self._state[0]
            self._state, rest, _ = self._machine.flush(self._state)
            pieces += [(state == "reasoning", rest)] if rest else []
        return pieces

    def _split(self, text: str) -> list[tuple[bool, str]]:
        if self.stopped or not text:
            return []
        self._state, segments = self._machine.split(self._state, text)
        return [(state == "reasoning", piece) for state, piece in segments if piece]


def default_sampling(path: Path) -> Sampling:
    """What a request gets that says nothing: the model's generation_config.json if it samples, else greedy."""
    file = path / "generation_config.json"
    if not file.is_file():
        return Sampling()
    settings = weights.read_json(file)
    if not settings.get("do_sample", "temperature" in settings):
        return Sampling()

    def number(name: str, default: float) -> float:
        value = settings.get(name)
        return float(value) if isinstance(value, int | float) else default

    return Sampling(
        temperature=number("temperature", 1.0),
        top_p=number("top_p", 1.0),
        top_k=int(number("top_k", 0)),
    )
