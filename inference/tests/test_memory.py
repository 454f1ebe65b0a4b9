"""Threads of a rank that waits for its memory."""

from __future__ import annotations

import sys
import threading

import mlx.core as mx

from macluster_inference.memory import empty_patiently


def test_other_threads_run_while_the_cache_is_emptied_in_the_middle_of_work() -> None:
    kept, interval = mx.clear_cache, sys.getswitchinterval()
    a = mx.random.normal((2000, 2000), stream=mx.cpu)
    mx.eval(a)
    begun, ran = threading.Event(), threading.Event()

    def other() -> None:
        begun.wait()
        ran.set()

    thread = threading.Thread(target=other)
    thread.start()
    # From here on, a thread runs only when another gives the interpreter lock away by itself.
    sys.setswitchinterval(1000)
    try:
        empty_patiently()
        mx.async_eval(mx.matmul(a, a, stream=mx.cpu))
        begun.set()
        mx.clear_cache()
        assert ran.is_set()
    finally:
        vars(mx)["clear_cache"] = kept
        sys.setswitchinterval(interval)
        begun.set()
        thread.join()
