"""The life of a joined rank: load, prove, serve requests one at a time, and meet the others while idle."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from . import model
from .config import Parallel, RankConfig
from .control import Control
from .errors import EngineError, Kind, StopRequestedError, stopping_error
from .events import Events
from .generate import Listener, Work, next_chunk, run, warm_up
from .group import Group, checksum
from .jobs import Job, Jobs
from .model import Checked, Loaded, Throttle
from .server import Server
from .service import Service
from .text import Text, default_sampling
from .witness import Register

IDLE_BEAT_S = 2.0
DECODE_BEAT_S = 0.5
WARM_S = 30.0
"""For so long after a request, ranks meet often, so that the next one starts at once."""

WARM_SYNC_S = 0.05


class Front:
    """What rank 0 has and the others lack: text, a queue, and an HTTP server."""

    def __init__(self, text: Text, server: Server, jobs: Jobs) -> None:
        self.text = text
        self.server = server
        self.jobs = jobs
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def prepare(cls, config: RankConfig, checked: Checked, register: Register) -> Front:
        """Load the tokenizer and take the port.

        Raises:
            EngineError: kind `model-incomplete`, `config` or `api-port`.
        """
        assert config.api is not None
        text = Text.load(checked.path, checked.config, checked.context, trust_remote_code=checked.trust_remote_code)
        return cls(text, Server(config.api, register), Jobs())

    def open(self, config: RankConfig, listener: Listener) -> None:
        """Begin to answer HTTP.

        Raises:
            EngineError: kind `api-port`.
        """
        service = Service(
            config.model_id,
            self.text,
            default_sampling(config.model_path),
            self.jobs,
            listener,
            config.world_size,
        )
        with self._closing:
            if not self._closed:
                self.server.activate(service)

    def close(self) -> None:
        """End all requests with an error, and the server. Whoever comes second waits for the first."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self.jobs.close()
                self.server.deactivate()

    def close_aside(self) -> None:
        """The same, in a thread of its own: the one that computes may hang, and be killed with its connections."""
        self.jobs.close()
        threading.Thread(target=self.close, name="close", daemon=True).start()


class Rank(Listener):
    """This rank's part in every step: its signs of life, and whether it was asked to stop."""

    def __init__(self, control: Control, events: Events, jobs: Jobs | None) -> None:
        self._control = control
        self._events = events
        self._jobs = jobs

    def stop_reason(self) -> str | None:
        """Why this rank was asked to stop, or None."""
        return self._control.reason if self._control.stopping else None

    def alive(self, phase: str, step: int) -> None:
        """Tell the agent, and `/health`."""
        if self._jobs is not None:
            self._jobs.met(phase)
        self._events.beat(phase, step, {"idle": IDLE_BEAT_S, "decode": DECODE_BEAT_S}.get(phase, 0.0))


def start(checked: Checked, group: Group, control: Control, events: Events) -> tuple[Loaded, int]:
    """Compare the ranks' models, load, and make a token together; also says how much of a prompt to take at once.

    Raises:
        StopRequestedError: on all ranks at the same step.
        EngineError: kind `config`, `model-mismatch`, `model-incomplete` or `generation`.
    """
    _meet(group, control)
    _same_model(checked, group)
    throttle = Throttle(model.PROGRESS_EVERY_S)

    def progress(done: int, total: int, failed: bool) -> None:
        if total and (done == total or throttle.ready()):
            events.emit("loading", done=done, total=total)
        _meet(group, control, failed)

    loaded = model.load(checked, group, progress)
    events.emit(
        "loaded",
        tensors=checked.tensors,
        parameters=loaded.parameters,
        bytes=loaded.size,
        digest=checked.digest.hex(),
        peak_memory=loaded.peak_memory,
    )
    return loaded, warm_up(loaded.model, group, Rank(control, events, None))


def _meet(group: Group, control: Control, failed: bool = False) -> None:
    """One step of the start, taken together: who must stop, who failed?"""
    stops, failures = group.vote(control.stopping, failed)
    others = [rank for rank in failures if rank != group.rank]
    if others and not failed:
        raise EngineError(Kind.MODEL_INCOMPLETE, f"rank {_list(others)} failed to load; see its own error")
    if stops and not failed:
        raise StopRequestedError(control.reason or f"rank {_list(stops)} was asked to stop")


def _same_model(checked: Checked, group: Group) -> None:
    """All ranks must hold the same files, and mean to divide them alike."""
    (pipelines,) = group.vote(checked.parallel is Parallel.PIPELINE)
    if 0 < len(pipelines) < group.size:
        told = f"rank {_list(pipelines)} has `parallel: pipeline` in its rank.json, the others have not"
        raise EngineError(Kind.CONFIG, f"{told}; deploy again")
    differing = group.differing(checked.digest)
    if differing:
        mine = " (this one)" if group.rank in differing else ""
        message = f"rank {_list(differing)}{mine} holds other model files than rank 0 in {checked.path}"
        raise EngineError(Kind.MODEL_MISMATCH, message)


def _list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))


def serve(
    config: RankConfig,
    loaded: Loaded,
    chunk: int,
    group: Group,
    control: Control,
    events: Events,
    front: Front | None,
) -> None:
    """Serve until some rank is asked to stop.

    Raises:
        StopRequestedError: on all ranks at the same step.
        EngineError: kind `api-port`, `generation` or `internal`.
    """
    jobs = front.jobs if front else None
    rank = Rank(control, events, jobs)
    try:
        if front:
            rank.alive("idle", 0)
            # Ranks that hang never come back to say so; clients are told all the same.
            control.at_stop(front.close_aside)
            front.open(config, rank)
        events.emit("ready", api=str(config.api) if config.api else None, model=config.model_id)
        _Loop(config, loaded, chunk, group, control, events, rank, jobs).run()
    finally:
        if front:
            front.close()


class _Loop:
    """Meet the other ranks, serve a request if rank 0 has one, and again."""

    def __init__(
        self,
        config: RankConfig,
        loaded: Loaded,
        chunk: int,
        group: Group,
        control: Control,
        events: Events,
        rank: Rank,
        jobs: Jobs | None,
    ) -> None:
        self._idle_sync_s = config.idle_sync_s
        self._loaded = loaded
        self._group = group
        self._control = control
        self._events = events
        self._rank = rank
        self._jobs = jobs
        self._job: Job | None = None
        self._chunk = chunk
        self._interval_s = WARM_SYNC_S
        self._busy_at = time.monotonic()

    def run(self) -> None:
        served = 0
        while True:
            try:
                work = self._meet()
                self._rank.alive("idle", served)
                if work:
                    self._serve(work)
                    served += 1
            except BaseException:
                if self._job:
                    self._job.fail(stopping_error())
                raise

    def _meet(self) -> Work | None:
        """Let the interval pass, or a request come, and agree on what to do next."""
        payload = b""
        wish_ms = 0
        if self._jobs is None:
            # A rank that waits inside a collective would keep a core busy.
            self._control.pause(self._interval_s)
        else:
            self._job = self._jobs.next(self._interval_s)
            if self._job:
                payload = replace(self._job.work, chunk=self._chunk).encode()
            wish_ms = round(self._next_interval() * 1000)
        stops, length, crc, interval_ms = self._group.sum(
            [int(self._control.stopping), len(payload), checksum(payload), wish_ms]
        )
        if stops:
            raise StopRequestedError(self._control.reason or "another rank was asked to stop")
        self._interval_s = interval_ms / 1000
        return Work.decode(self._group.share(payload, length, crc)) if length else None

    def _next_interval(self) -> float:
        warm = self._job is not None or time.monotonic() - self._busy_at < WARM_S
        return min(WARM_SYNC_S, self._idle_sync_s) if warm else self._idle_sync_s

    def _serve(self, work: Work) -> None:
        outcome = run(work, self._loaded.model, self._group, self._job or self._rank)
        self._chunk = next_chunk(self._chunk, outcome, len(work.prompt))
        self._busy_at = time.monotonic()
        if self._jobs and self._job:
            self._jobs.finish(self._job, outcome.end, outcome.tokens)
            self._job = None
        self._events.emit(
            "generated",
            request=work.request,
            prompt_tokens=len(work.prompt),
            tokens=outcome.tokens,
            prompt_tps=outcome.prompt_tps,
            generation_tps=outcome.generation_tps,
            finish_reason=outcome.end.name.lower(),
        )
