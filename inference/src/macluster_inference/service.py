"""What the HTTP threads share: from a request body to a queued job."""

from __future__ import annotations

import time
import uuid
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
