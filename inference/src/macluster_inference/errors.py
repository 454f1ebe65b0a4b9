"""Every way the engine can fail, and the exit code of each: the only table of its kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

EXIT_STOPPED = 0
EXIT_UNEXPECTED = 1
EXIT_CONFIG = 3
EXIT_MODEL = 4
EXIT_JOIN = 5
EXIT_API_PORT = 6
EXIT_STOP_IGNORED = 70


class Kind(StrEnum):
    """The `kind` of an `error` event."""

    CONFIG = "config"
    MODEL_MISSING = "model-missing"
    MODEL_INCOMPLETE = "model-incomplete"
    MODEL_MISMATCH = "model-mismatch"
    DOES_NOT_SPLIT = "does-not-split"
    JOIN_FAILED = "join-failed"
    WORLD_SIZE = "world-size"
    API_PORT = "api-port"
    TIMEOUT = "timeout"
    PEER_LOST = "peer-lost"
    GENERATION = "generation"
    INTERNAL = "internal"


EXIT_CODES: dict[Kind, int] = {
    Kind.CONFIG: EXIT_CONFIG,
    Kind.MODEL_MISSING: EXIT_MODEL,
    Kind.MODEL_INCOMPLETE: EXIT_MODEL,
    Kind.MODEL_MISMATCH: EXIT_MODEL,
    Kind.DOES_NOT_SPLIT: EXIT_MODEL,
    Kind.JOIN_FAILED: EXIT_JOIN,
    Kind.WORLD_SIZE: EXIT_JOIN,
    Kind.TIMEOUT: EXIT_JOIN,
    Kind.API_PORT: EXIT_API_PORT,
    Kind.PEER_LOST: EXIT_UNEXPECTED,
    Kind.GENERATION: EXIT_UNEXPECTED,
    Kind.INTERNAL: EXIT_UNEXPECTED,
}


class EngineError(Exception):
    """A failure that ends the engine; the message is written for the operator."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def exit_code(self) -> int:
        """The process exit code that stands for this failure."""
        return EXIT_CODES[self.kind]


class StopRequestedError(Exception):
    """Some rank was asked to stop, and all ranks learnt it at this same step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


RETRY_AFTER_S = 5
"""When a client that is refused for now may come again."""


class RequestError(Exception):
    """A request the engine refuses; becomes an OpenAI error object."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """The OpenAI error object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def stopping_error() -> RequestError:
    """What a client hears whose request cannot be done any more."""
    return RequestError(503, "the engine is stopping", code="stopping")
