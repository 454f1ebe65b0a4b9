"""A rank of the ring: sums and gathers with the others, and says what came of it.

A peer that never comes would be waited for without end, so an alarm ends the process.
"""

import signal

signal.alarm(60)

import mlx.core as mx  # noqa: E402

group = mx.distributed.init(strict=True, backend="ring")
rank = group.rank()
# 4 MiB of every rank's bit: enough to be seen in the counters of the cables.
total = mx.distributed.all_sum(mx.full((1 << 20,), 1 << rank, dtype=mx.int32))
gathered = mx.distributed.all_gather(mx.array([10 * (rank + 1)]))
print(f"rank {rank} of {group.size()}: sum {total.min().item()}..{total.max().item()}, gathered {gathered.tolist()}")
