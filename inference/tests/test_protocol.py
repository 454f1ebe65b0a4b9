"""Which requests are refused, and how what is accepted is understood."""

from __future__ import annotations

from typing import Any

import pytest

from macluster_inference.errors import RequestError
from macluster_inference.generate import Sampling
from macluster_inference.protocol import Request, parse

USER = [{"role": "user", "content": "hi"}]


def understand(body: Any, *, chat: bool = True, defaults: Sampling | None = None) -> Request:
    return parse(body, chat=chat, model_id="served", defaults=defaults or Sampling(), vocabulary=100)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 100}, "top_k"),
        ({"seed": 1.5}, "seed"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stop": [""]}, "stop"),
        ({"stop": 7}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"adapters": "x"}, "adapters"),
        ({"chat_template_kwargs": {"tokenize": False}}, "chat_template_kwargs.tokenize"),
        ({"model": 3}, "model"),
    ],
)
def test_refusals(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        understand({"messages": USER, **fields})
    assert refused.value.status == 400
    error = refused.value.body()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("prompt", [None, "", [], ["a"], [100], [-1], [True], 5])
def test_prompts_that_are_none(prompt: Any) -> None:
    with pytest.raises(RequestError) as refused:
        understand({"prompt": prompt}, chat=False)
    assert refused.value.param == "prompt"


@pytest.mark.parametrize("model", [None, "served", "default_model"])
def test_names_of_the_served_model(model: str | None) -> None:
    assert understand({"messages": USER, "model": model}).messages == USER


@pytest.mark.parametrize("body", [None, [], "hi", 3])
def test_a_body_must_be_an_object(body: Any) -> None:
    with pytest.raises(RequestError):
        understand(body)


def test_another_model_is_not_found() -> None:
    with pytest.raises(RequestError) as refused:
        understand({"messages": USER, "model": "gpt-4"})
    assert refused.value.status == 404
    assert refused.value.code == "model_not_found"


def test_values_that_change_nothing_are_accepted() -> None:
    harmless = {"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}, "user": "me", "stop": None}
    assert understand({"messages": USER, **harmless}).stop == []


def test_what_a_request_says_nothing_about_is_the_models_to_say() -> None:
    defaults = Sampling(temperature=0.7, top_p=0.8, top_k=20)
    assert understand({"messages": USER}, defaults=defaults).sampling == defaults
    told = understand({"messages": USER, "temperature": 0, "seed": 5}, defaults=defaults).sampling
    assert told == Sampling(temperature=0.0, top_p=0.8, top_k=20, seed=5)


def test_messages_become_what_templates_know() -> None:
    request = understand(
        {
            "messages": [
                {"role": "developer", "content": "be brief"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                    "name": "x",
                },
                {"role": "assistant", "content": None},
            ]
        }
    )
    assert request.messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": ""},
    ]
