"""Between the HTTP threads and the one thread that computes: the queue, its jobs, and the state of the engine."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

from .errors import RequestError, stopping_error
from .generate import End, Listener, Work
from .text import TextStream

QUEUE_LIMIT = 16
SYNC_LIMIT_S = 5.0
"""Ranks that have not met for this long are not healthy."""


@dataclass(frozen=True)
class Piece:
    """Some text of an answer."""

    text: str
    reasoning: bool


@dataclass(frozen=True)
class Done:
    """The end of an answer."""

    reason: str
    tokens: int


class Job(Listener):
    """One request on its way: fed by the computing thread, drained by its HTTP thread."""

    def __init__(self, work: Work, stream: TextStream, listener: Listener) -> None:
        self.work = work
        self.output: queue.SimpleQueue[Piece | Done | RequestError] = queue.SimpleQueue()
        self._stream = stream
        self._engine = listener
        self._cancelled = threading.Event()
        self._failure: str | None = None

    def cancel(self) -> None:
        """The client has gone."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether the client has gone."""
        return self._cancelled.is_set()

    def token(self, token: int) -> End:
        """Turn one token into text for the client."""
        if self.cancelled:
            return End.CANCELLED
        # The end-of-answer token has no text, and never reaches this method.
        try:
            self._put(self._stream.add(token))
        except Exception as error:  # noqa: BLE001 - one answer must not end the engine
            self._failure = f"token {token} cannot be turned into text: {error}"
            return End.ERROR
        return End.STOP if self._stream.stopped else End.NONE

    def wants_end(self) -> End:
        """Nobody is waiting any more."""
        return End.CANCELLED if self.cancelled else End.NONE

    def stop_reason(self) -> str | None:
        """The engine's."""
        return self._engine.stop_reason()

    def alive(self, phase: str, step: int) -> None:
        """The engine's."""
        self._engine.alive(phase, step)

    def finish(self, end: End, tokens: int) -> None:
        """Hand over the rest of the text, and the end."""
        if end is not End.ERROR:
            try:
                self._put(self._stream.finish())
            except Exception as error:  # noqa: BLE001 - one answer must not end the engine
                self._failure = f"the end of the answer cannot be turned into text: {error}"
        if self._failure:
            self.fail(RequestError(500, self._failure, code="generation_failed"))
        else:
            self.output.put(Done("length" if end is End.LENGTH else "stop", tokens))

    def fail(self, error: RequestError) -> None:
        """End with an error instead."""
        self.output.put(error)

    def _put(self, pieces: list[tuple[bool, str]]) -> None:
        for reasoning, text in pieces:
            self.output.put(Piece(text, reasoning))


class Jobs:
    """The bounded queue in front of the model, and what `/health` tells."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Job] = queue.Queue(QUEUE_LIMIT)
        self._closed = False
        self._active: Job | None = None
        self.phase = "starting"
        self.served = 0
        self._met_at = 0.0
        self._token_at: float | None = None

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            RequestError: 503, when the engine is stopping or the queue is full.
        """
        if self._closed:
            raise stopping_error()
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise RequestError(503, f"{QUEUE_LIMIT} requests are waiting already", code="overloaded") from None
        if self._closed:  # it closed in between, and may not have seen this job
            job.fail(stopping_error())

    def next(self, timeout_s: float) -> Job | None:
        """The next job whose client is still there, waiting at most `timeout_s` for one."""
        try:
            job = self._queue.get(timeout=timeout_s)
            while job.cancelled:
                job = self._queue.get_nowait()
        except queue.Empty:
            return None
        self._active = job
        if self._closed:  # it closed in between, and may not have seen this job
            job.fail(stopping_error())
        return job

    def close(self) -> None:
        """Refuse what comes from now on, what is waiting, and what is being answered. May be called again."""
        self._closed = True
        self.phase = "stopping"
        if active := self._active:
            active.fail(stopping_error())
        while True:
            try:
                self._queue.get_nowait().fail(stopping_error())
            except queue.Empty:
                return

    def met(self, phase: str) -> None:
        """All ranks were just in step."""
        if not self._closed:
            self.phase = phase
        self._met_at = time.monotonic()
        if phase == "decode":
            self._token_at = time.time()

    def finish(self, job: Job, end: End, tokens: int) -> None:
        """A job was done; counted before its client can ask."""
        self._active = None
        self.served += 1
        self.met("idle")
        job.finish(end, tokens)

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the engine works, and the facts behind that. Times are unix seconds or seconds."""
        since = time.monotonic() - self._met_at
        ready = self.phase not in ("starting", "stopping")
        healthy = ready and since <= SYNC_LIMIT_S
        return healthy, {
            "status": "ok" if healthy else ("stalled" if ready else self.phase),
            "phase": self.phase,
            "seconds_since_sync": round(since, 3) if self._met_at else None,
            "last_token_at": self._token_at,
            "queued": self._queue.qsize(),
            "served": self.served,
        }
