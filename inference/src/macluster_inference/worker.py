"""The process that computes: checks the model, joins the ranks, loads, serves, and stops in step.

Started by `engine`, told what to do on standard input (see `control`), and deaf to signals, so that no signal
can catch it inside a collective. All MLX work is done by the main thread.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

# Nothing is ever fetched: a rank that began to download would keep the others waiting.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from . import config as rank_config
from .config import RankConfig
from .control import ORPHAN_LIMIT_S, Control
from .errors import EXIT_STOPPED, EngineError, Kind, StopRequestedError
from .events import Events, take_stdout
from .witness import Register


def main(argv: list[str] | None = None) -> int:
    """Run one rank; returns the exit code."""
    events_fd = take_stdout()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="macluster_inference.worker", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="RANK_JSON")
    parser.add_argument("--clients", type=int, metavar="FD", help="where the engine process hears of rank 0's clients")
    options = parser.parse_args(argv)
    register = Register()
    if options.clients is not None:
        os.set_inheritable(options.clients, False)
        register = Register(socket.socket(fileno=options.clients))
    events = Events(events_fd, None, None)
    try:
        config = rank_config.load(options.config)
        events = Events(events_fd, config.rank, config.node)
        control = Control()
        control.listen()
        _run(config, control, events, register)
    except StopRequestedError as stop:
        events.emit("stopped", reason=stop.reason)
        return EXIT_STOPPED
    except EngineError as error:
        traceback.print_exc()
        return _fail(events, error)
    except Exception as error:  # noqa: BLE001 - every end is reported
        traceback.print_exc()
        return _fail(events, EngineError(Kind.INTERNAL, f"{type(error).__name__}: {error}"))
    raise AssertionError("a rank serves until it is stopped")


def _fail(events: Events, error: EngineError) -> int:
    events.error(error)
    events.emit("stopped", reason=f"error: {error.kind}")
    return error.exit_code


def _run(config: RankConfig, control: Control, events: Events, register: Register) -> None:
    """Everything from checks to the last request.

    Raises:
        StopRequestedError: at the end of every good life.
        EngineError: otherwise.
    """
    # Slow imports, deliberately before `armed`: after it, workers have about 15 s to find rank 0.
    import mlx.core as mx

    from . import memory, model
    from .group import join
    from .serve import Front, serve, start

    if mx.default_device() == mx.cpu:
        # On a CPU, MLX compiles fused kernels by calling a C++ compiler, into a folder all ranks of a host share.
        mx.disable_compile()
        memory.empty_patiently()
    checked = model.check(
        config.model_path, config.world_size, trust_remote_code=config.trust_remote_code, parallel=config.parallel
    )
    front = Front.prepare(config, checked, register) if config.api else None
    events.emit("armed")
    control.wait_go()
    # While `join` waits, no Python runs in this process; this alone ends it if the engine process dies then.
    faulthandler.dump_traceback_later(config.start_timeout_s + ORPHAN_LIMIT_S, exit=True)
    events.emit("joining", backend=config.backend, world_size=config.world_size)
    group = join(config)
    events.emit("joined", world_size=group.size)
    loaded, chunk = start(checked, group, control, events)
    faulthandler.cancel_dump_traceback_later()
    serve(config, loaded, chunk, group, control, events, front)


def _exit(code: int) -> None:
    """Leave through the interpreter's normal end, which closes the group and returns its RDMA resources."""
    sys.stderr.flush()
    # HTTP threads are daemons; name what would keep the process from ending, for the log.
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            print(f"still running: {thread.name}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    _exit(main())
