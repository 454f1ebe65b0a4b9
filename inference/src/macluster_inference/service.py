"""What the HTTP threads share: from a request body to a queued job."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .generate import Listener, Sampling, Work
from .jobs import Job, Jobs
from .protocol import Request, parse
from .text import Text


class Service:
    """The served model, as the HTTP threads see it."""

    def __init__(
        self, model_id: str, text: Text, defaults: Sampling, jobs: Jobs, listener: Listener, world_size: int
    ) -> None:
        self.model_id = model_id
        self.jobs = jobs
        self.world_size = world_size
        self.created = int(time.time())
        self._text = text
        self._defaults = defaults
        self._listener = listener
        self._open = 0
        self._changed = threading.Condition()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While a request is answered, so that `wait_answered` knows."""
        with self._changed:
            self._open += 1
        try:
            yield
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def wait_answered(self, timeout_s: float) -> None:
        """Let the requests that are being answered come to their end."""
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0, timeout_s)

    def accept(self, body: Any, *, chat: bool) -> tuple[Request, Job]:
        """Check, tokenise and queue one request.

        Raises:
            RequestError: refused.
        """
        request = parse(
            body,
            chat=chat,
            model_id=self.model_id,
            defaults=self._defaults,
            vocabulary=self._text.vocabulary,
        )
        prompt = self._text.tokenize(request)
        work = Work(
            request=("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            prompt=prompt,
            max_tokens=self._text.limit(request, len(prompt)),
            eos=self._text.eos,
            sampling=request.sampling,
        )
        job = Job(work, self._text.stream(prompt, request.stop), self._listener)
        self.jobs.submit(job)
        return request, job
