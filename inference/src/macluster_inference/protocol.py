"""The OpenAI request bodies the engine accepts, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import RequestError
from .generate import Sampling

MAX_STOPS = 16
DEFAULT_MODEL_NAMES = ("default_model",)

# Fields that would change the answer, with the values that change nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "suffix": ("",),
    "echo": (False,),
    "adapters": (),
    "draft_model": (),
}

_ROLES = ("system", "developer", "user", "assistant", "tool")
_OWN_TEMPLATE_ARGUMENTS = ("tokenize", "add_generation_prompt", "return_dict", "tools", "chat_template")


@dataclass(frozen=True)
class Request:
    """A checked request. Exactly one of `messages` and `prompt` is set."""

    messages: list[dict[str, Any]] | None
    prompt: str | list[int] | None
    template_arguments: dict[str, Any]
    stream: bool
    include_usage: bool
    max_tokens: int | None
    stop: list[str]
    sampling: Sampling


def parse(raw: Any, *, chat: bool, model_id: str, defaults: Sampling, vocabulary: int) -> Request:
    """Check a request body; `vocabulary` is the number of tokens.

    Raises:
        RequestError: 404 for another model, 400 for anything else.
    """
    if not isinstance(raw, dict):
        raise RequestError(400, "the request body must be a JSON object")
    # Clients send null for a field they leave out.
    body = {key: value for key, value in raw.items() if value is not None}
    model = _typed(body, "model", str, model_id)
    if model != model_id and model not in DEFAULT_MODEL_NAMES:
        raise RequestError(
            404,
            f"this engine serves {model_id!r}, not {model!r}",
            param="model",
            code="model_not_found",
        )
    for name, harmless in _UNSUPPORTED.items():
        if name in body and not any(body[name] == value for value in harmless):
            raise RequestError(400, f"{name} is not supported here", param=name, code="unsupported_parameter")
    stream = _typed(body, "stream", bool, False)
    options = _typed(body, "stream_options", dict, {})
    limit_name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    return Request(
        messages=_messages(body) if chat else None,
        prompt=None if chat else _prompt(body, vocabulary),
        template_arguments=_template_arguments(body) if chat else {},
        stream=stream,
        include_usage=stream and _typed(options, "include_usage", bool, False),
        max_tokens=_whole(body, limit_name, None, 1, None),
        stop=_stop(body),
        sampling=_sampling(body, defaults, vocabulary),
    )


def _sampling(body: Mapping[str, Any], defaults: Sampling, vocabulary: int) -> Sampling:
    return Sampling(
        temperature=_number(body, "temperature", defaults.temperature, 0, 2),
        top_p=_number(body, "top_p", defaults.top_p, 0, 1),
        top_k=_whole(body, "top_k", defaults.top_k, 0, vocabulary - 1) or 0,
        min_p=_number(body, "min_p", defaults.min_p, 0, 1),
        repetition_penalty=_number(body, "repetition_penalty", defaults.repetition_penalty, 0, 10),
        presence_penalty=_number(body, "presence_penalty", defaults.presence_penalty, -2, 2),
        frequency_penalty=_number(body, "frequency_penalty", defaults.frequency_penalty, -2, 2),
        seed=_whole(body, "seed", None, -(2**63), 2**64 - 1),
    )


def _bad(name: str, message: str) -> RequestError:
    return RequestError(400, f"{name} {message}", param=name, code="invalid_value")


def _typed(body: Mapping[str, Any], name: str, wanted: type, default: Any) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        words = {
            str: "a string",
            bool: "true or false",
            dict: "an object",
            list: "an array",
            int: "an integer",
        }
        raise _bad(name, f"must be {words[wanted]}")
    return value


def _number(body: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(name, "must be a number")
    if not low <= value <= high:  # NaN fails too
        raise _bad(name, f"must be between {low} and {high}")
    return float(value)


def _whole(body: Mapping[str, Any], name: str, default: int | None, low: int, high: int | None) -> int | None:
    value = _typed(body, name, int, default)
    if value is None:
        return None
    if value < low:
        raise _bad(name, f"must be at least {low}")
    if high is not None and value > high:
        raise _bad(name, f"must be at most {high}")
    return value


def _stop(body: Mapping[str, Any]) -> list[str]:
    stop = body.get("stop", [])
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in stops):
        raise _bad("stop", "must be a non-empty string or an array of them")
    if len(stops) > MAX_STOPS:
        raise _bad("stop", f"must have at most {MAX_STOPS} entries")
    return stops


def _prompt(body: Mapping[str, Any], vocabulary: int) -> str | list[int]:
    prompt = body.get("prompt")
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt and all(type(t) is int and 0 <= t < vocabulary for t in prompt):
        return prompt
    raise _bad("prompt", "must be a non-empty string or an array of token ids of this model")


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _bad("messages", "must be a non-empty array")
    return [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise _bad(where, "must be an object")
    role = message.get("role")
    if role not in _ROLES:
        raise _bad(f"{where}.role", f"must be one of {', '.join(_ROLES)}")
    if message.get("tool_calls"):
        raise _bad(f"{where}.tool_calls", "is not supported here")
    # Chat templates know no "developer".
    return {"role": "system" if role == "developer" else role, "content": _content(message, role, where)}


def _content(message: Mapping[str, Any], role: str, where: str) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    if not isinstance(content, list):
        raise _bad(f"{where}.content", "must be a string or an array of text parts")
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise _bad(f"{where}.content", "may hold text parts only")
        texts.append(text)
    return "".join(texts)


def _template_arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    arguments = _typed(body, "chat_template_kwargs", dict, {})
    for name in _OWN_TEMPLATE_ARGUMENTS:
        if name in arguments:
            raise _bad(f"chat_template_kwargs.{name}", "is not the client's to set")
    return arguments
