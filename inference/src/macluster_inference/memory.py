"""MLX's cache of freed memory, emptied without keeping this process's other threads from their work."""

from __future__ import annotations

import mlx.core as mx


def empty_patiently() -> None:
    """Replace `mx.clear_cache`, which mlx-lm calls in the middle of its loop, by one that waits first.

    On a CPU, MLX 0.32 waits for all work under way before it empties the cache, and keeps the interpreter lock while it
    does (measured). Where that work is a sum with a rank that hangs, no thread could hear `stop` any more, or tell
    a client. `mx.synchronize` waits just so, but gives the lock away; after it there is nothing left to wait for.
    """
    empty = mx.clear_cache

    def clear_cache() -> None:
        mx.synchronize()
        empty()

    vars(mx)["clear_cache"] = clear_cache
