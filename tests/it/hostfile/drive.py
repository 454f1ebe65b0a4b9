"""MLX's own launcher, started as `mlx.launch` is, on a hostfile of ours.

In place of `ssh HOST SCRIPT` every rank's script runs here in an empty environment, and the program it ends in writes
down what it got. The answer is a JSON list by rank: host, MLX's variables, the files they name.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from mlx._distributed_utils import launch

REPORT = """
import json, os, sys
mlx = {k: v for k, v in os.environ.items() if k.startswith(("MLX_", "JACCL_"))}
files = {k: open(v).read() for k, v in mlx.items() if os.path.isfile(v)}
env = {k: "FILE" if k in files else v for k, v in mlx.items()}
with open(os.path.join(os.environ["TMPDIR"], "rank-" + mlx["MLX_RANK"]), "w") as report:
    json.dump({"env": env, "files": files}, report, sort_keys=True)
"""

place = Path(tempfile.mkdtemp(dir=sys.argv.pop(1)))
hosts = {}


class Here(subprocess.Popen):
    """The script of a rank, in a shell of this machine."""

    def __init__(self, command, **options):
        *start, host, script = shlex.split(command)
        if start != ["ssh", "-tt", "-o", "LogLevel=QUIET"]:
            raise RuntimeError(f"not started by ssh: {command}")
        hosts[host] = script
        super().__init__(script, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(place)}, **options)


launch.Popen = Here
sys.argv += ["--python", sys.executable, "--", "-I", "-c", REPORT]
launch.main()
ranks = [json.loads((place / f"rank-{rank}").read_text()) for rank in range(len(hosts))]
by_rank = {rank: host for host, script in hosts.items() for rank in range(len(hosts)) if f"MLX_RANK={rank};" in script}
print(json.dumps([{"host": by_rank[rank], **report} for rank, report in enumerate(ranks)]))
