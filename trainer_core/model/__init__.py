"""Models: finding, loading, adapting and asking them."""

from trainer_core.backend import prepare

# Whoever reaches the engine this way may import MLX next, and the BLAS has to be there first.
prepare()
