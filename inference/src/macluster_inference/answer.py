"""The OpenAI objects an answer is told in, whole or piece by piece."""

from __future__ import annotations

import time
from typing import Any

from .jobs import Done, Job, Piece


class Answer:
    """One answer, as it grows."""

    def __init__(self, job: Job, model_id: str, *, chat: bool) -> None:
        self.chat = chat
        self._job = job
        self._head = {"id": job.work.request, "created": int(time.time()), "model": model_id}
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._done = Done("stop", 0)

    def take(self, event: Piece | Done) -> None:
        """Collect one event."""
        if isinstance(event, Done):
            self._done = event
        else:
            (self._reasoning if event.reasoning else self._content).append(event.text)

    def _usage(self) -> dict[str, int]:
        prompt, tokens = len(self._job.work.prompt), self._done.tokens
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

    def whole(self) -> dict[str, Any]:
        """The answer in one object."""
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        choice: dict[str, Any] = {"index": 0, "finish_reason": self._done.reason, "logprobs": None}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": content}
            if reasoning:
                choice["message"]["reasoning_content"] = reasoning
        else:
            choice["text"] = reasoning + content
        name = "chat.completion" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice], "usage": self._usage()}

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        """One object of a stream."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        if self.chat:
            choice["delta"] = delta
        else:
            choice["text"] = "".join(delta.values())
        name = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice]}

    def piece(self, event: Piece | Done) -> dict[str, Any]:
        """The object that carries one event."""
        if isinstance(event, Done):
            return self.chunk({}, event.reason)
        return self.chunk({"reasoning_content" if event.reasoning else "content": event.text})

    def usage_chunk(self) -> dict[str, Any]:
        """The last object of a stream whose client asked for usage."""
        name = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [], "usage": self._usage()}
