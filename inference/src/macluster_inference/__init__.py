"""One rank of a tensor-parallel MLX server, started and watched by `macluster agent`.

`engine` is the process the agent starts; it never imports MLX. It runs `worker`, which holds the model.
"""

__version__ = "0.1.0"
