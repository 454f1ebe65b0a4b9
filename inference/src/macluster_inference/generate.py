"""One request across all ranks, token by token, on mlx-lm's own generation loop.

Only rank 0 samples. Its token, and everything any rank wants to say, travels in one small sum per step that is
part of the step's own graph, so mlx-lm's pipelining (step n+1 is under way while token n is read) is kept and
ranks with slightly different logits can never part. A wish to end, known on one rank, is common knowledge
two steps later, because those steps are already in flight.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Self

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from .errors import EngineError, Kind, StopRequestedError
from .group import Group, lost_peer

MIN_CHUNK, FIRST_CHUNK, MAX_CHUNK = 16, 256, 2048
"""Tokens of a prompt taken at once."""

CHUNK_S = 2.0
"""Seconds a chunk should take at most: below the 5 s of `/health`, and of the GPU's watchdog."""


class End(IntEnum):
    """Why a request ended; the value is what ranks exchange."""

    NONE = 0
    STOP = 1
    LENGTH = 2
    CANCELLED = 3
    ERROR = 4


@dataclass(frozen=True)
class Sampling:
    """How rank 0 picks a token; temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class Work:
    """One request as all ranks see it: token ids and numbers, never text."""

    request: str
    prompt: list[int]
    max_tokens: int
    eos: list[int]
    chunk: int = FIRST_CHUNK
    sampling: Sampling = field(default_factory=Sampling)

    def encode(self) -> bytes:
        """As JSON bytes."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """From JSON bytes."""
        raw: dict[str, Any] = json.loads(data)
        return cls(**{**raw, "sampling": Sampling(**raw["sampling"])})


@dataclass(frozen=True)
class Outcome:
    """What one request took; rates are tokens per second."""

    tokens: int
    end: End
    prompt_tps: float
    generation_tps: float


class Listener:
    """What a rank does with a request while it runs. Rank 0 overrides `token` and `wants_end`."""

    def token(self, token: int) -> End:
        """Take one token; says whether the request should end here."""
        return End.NONE

    def wants_end(self) -> End:
        """Asked between steps: should the request end, whatever the tokens?"""
        return End.NONE

    def stop_reason(self) -> str | None:
        """Why this rank should stop altogether, or None."""
        return None

    def alive(self, phase: str, step: int) -> None:
        """A step was made by all ranks."""


class _EndedError(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end.name)
        self.end = end


class _Steps:
    """The sampler given to mlx-lm, and the shared vector of each step: [token, end, tokens counted, stops]."""

    def __init__(self, work: Work, group: Group, listener: Listener) -> None:
        self._group = group
        self._listener = listener
        self._first = group.rank == 0
        s = work.sampling
        self._sample = make_sampler(s.temperature, s.top_p, s.min_p, top_k=s.top_k) if self._first else make_sampler()
        self._vectors: deque[mx.array] = deque()
        self.end = End.NONE
        self.counted = 0

    def __call__(self, logprobs: mx.array) -> mx.array:
        # Other ranks add zero, but a zero that depends on their logits: the model's own sums come first.
        token = self._sample(logprobs).astype(mx.int32) * int(self._first)
        end = self.end or self._listener.wants_end() if self._first else End.NONE
        stops = int(self._listener.stop_reason() is not None)
        vector = mx.concatenate([token, mx.array([int(end), self.counted, stops], dtype=mx.int32)])
        if self._group.handle is not None:
            vector = mx.distributed.all_sum(vector, group=self._group.handle)
        self._vectors.append(vector)
        return vector[:1].astype(mx.uint32)

    def next(self) -> tuple[End, int, int]:
        """What the step just taken said: why to end, after how many tokens, and how many ranks must stop."""
        _, end, counted, stops = self._vectors.popleft().tolist()
        return End(end), counted, stops


def run(work: Work, model: nn.Module, group: Group, listener: Listener, *, prove: bool = False) -> Outcome:
    """Serve one request; called by all ranks with the same `work`. `prove` refuses logits that are not numbers.

    Raises:
        StopRequestedError: some rank was asked to stop; raised by all ranks at the same step.
        EngineError: kind `generation`, or `peer-lost`.
    """
    try:
        return _run(work, model, group, listener, prove)
    except (EngineError, StopRequestedError):
        raise
    except Exception as error:
        kind = Kind.PEER_LOST if lost_peer(error) else Kind.GENERATION
        raise EngineError(kind, f"request {work.request}: {error}") from error
    finally:
        # The step in flight must be over before the ranks' next sum. If a peer is lost that is reported already.
        with contextlib.suppress(RuntimeError):
            mx.synchronize()
        with contextlib.suppress(RuntimeError):
            mx.clear_cache()


def _run(work: Work, model: nn.Module, group: Group, listener: Listener, prove: bool) -> Outcome:
    s = work.sampling
    first = group.rank == 0
    if first:
        mx.random.seed(s.seed if s.seed is not None else time.time_ns())
    steps = _Steps(work, group, listener)
    begin = time.perf_counter()
    first_token_at = begin
    tokens, end = 0, End.LENGTH
    try:
        for token, logprobs in generate_step(
            mx.array(work.prompt, dtype=mx.uint32),
            model,
            mx.default_stream(mx.default_device()),
            max_tokens=work.max_tokens,
            sampler=steps,
            logits_processors=_processors(s) if first else None,
            prefill_step_size=work.chunk,
            prompt_progress_callback=_between_chunks(group, listener),
        ):
            shared_end, counted, stops = steps.next()
            if stops:
                raise StopRequestedError(listener.stop_reason() or "another rank was asked to stop")
            if shared_end:
                tokens, end = counted, shared_end
                break
            if prove and mx.isnan(logprobs).any().item():
                raise EngineError(Kind.GENERATION, "the model computes NaN: its weights or this GPU are unsound")
            if tokens == 0:
                first_token_at = time.perf_counter()
            tokens += 1
            listener.alive("decode", tokens)
            if token in work.eos:
                end = End.STOP
                break
            if first and not steps.end:
                steps.counted = tokens
                steps.end = listener.token(token)
    except _EndedError as ended:
        return Outcome(0, ended.end, 0.0, 0.0)
    if first and steps.end:  # the last tokens came before the others could hear of it
        end = steps.end
        tokens = steps.counted
    elapsed = time.perf_counter() - first_token_at
    return Outcome(
        tokens=tokens,
        end=end,
        prompt_tps=round(len(work.prompt) / max(first_token_at - begin, 1e-9), 2),
        generation_tps=round((tokens - 1) / max(elapsed, 1e-9), 2) if tokens > 1 else 0.0,
    )


def _processors(s: Sampling) -> list[Callable[[mx.array, mx.array], mx.array]] | None:
    """mlx-lm's penalties over the last 256 tokens, for rank 0 only; None when the request has none."""
    window = 256
    return (
        make_logits_processors(
            None,
            s.repetition_penalty or None,
            window,
            s.presence_penalty or None,
            window,
            s.frequency_penalty or None,
            window,
        )
        or None
    )


def _between_chunks(group: Group, listener: Listener) -> Callable[[int, int], None]:
    """Called by mlx-lm before each chunk of the prompt, on all ranks alike: the place to stop or cancel."""

    def meet(processed: int, total: int) -> None:
        # At the very end a step is already in flight, whose sums must not meet this one.
        if processed >= total:
            return
        end = int(listener.wants_end()) if group.rank == 0 else 0
        shared_end, stops = group.sum([end, int(listener.stop_reason() is not None)])
        if stops:
            raise StopRequestedError(listener.stop_reason() or "another rank was asked to stop")
        if shared_end:
            raise _EndedError(End(shared_end))
        listener.alive("prefill", processed)

    return meet


def warm_up(model: nn.Module, group: Group, listener: Listener) -> int:
    """Make a token before anyone is told `ready`: compiles the kernels, and proves every collective.

    Then once more, with the kernels there, to see how many tokens of a prompt can be taken at once: the first request
    on a slow machine must give signs of life too. Returns that number.

    Raises:
        EngineError: kind `generation`.
    """
    run(Work("warm-up", [1, 2, 3, 4], 1, []), model, group, listener, prove=True)
    outcome = run(Work("warm-up", [1] * MIN_CHUNK, 1, [], MIN_CHUNK), model, group, listener)
    return max(MIN_CHUNK, min(int(outcome.prompt_tps * CHUNK_S), FIRST_CHUNK))


def next_chunk(chunk: int, outcome: Outcome, prompt_tokens: int) -> int:
    """The chunk for the next request, from how fast this prompt went. Short prompts tell nothing."""
    if prompt_tokens < MIN_CHUNK or not outcome.prompt_tps:
        return chunk
    # At most fourfold up: the first prompts also pay for compiling kernels.
    return max(MIN_CHUNK, min(int(outcome.prompt_tps * CHUNK_S), chunk * 4, MAX_CHUNK))
