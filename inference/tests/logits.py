"""One rank's logits of a prompt, as JSON on standard output: `logits.py RANK_JSON PROMPT`.

As the engine does, it says `armed` and waits for a line before it joins: MLX does not wait long for a slow rank.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import mlx.core as mx

from macluster_inference import config, group, model

rank = config.load(Path(sys.argv[1]), os.environ)
checked = model.check(rank.model_path, rank.world_size, trust_remote_code=False, parallel=rank.parallel)
print("armed", flush=True)
sys.stdin.readline()
ranks = group.join(rank)
loaded = model.load(checked, ranks, lambda done, total, failed: None)
logits = loaded.model(mx.array([json.loads(sys.argv[2])]))
mx.eval(logits)
# All ranks leave together: one that was gone would be an error to the others.
ranks.sum([0])
print(json.dumps(logits[0].tolist()))
