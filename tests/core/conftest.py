"""The engine's tests run with MLX set up as a run sets it up."""

from trainer_core.backend import start_device

start_device()
