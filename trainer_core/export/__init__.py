"""Adapters out of the run folder, each proven to behave like the trained one."""

from trainer_core.backend import prepare

# Whoever reaches the engine this way may import MLX next, and the BLAS has to be there first.
prepare()
