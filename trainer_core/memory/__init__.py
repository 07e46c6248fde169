"""How much memory a run needs and how much there is, without MLX.

Read from a model folder's config.json and the headers of its safetensors files, so that a form can
show it while an option is being changed, and the engine can choose precision and segments before
anything is loaded. What is estimated is MLX's peak; `probe` measures it.
"""

from trainer_core.memory.available import available_bytes
from trainer_core.memory.estimate import MemoryEstimate, estimate
from trainer_core.memory.lengths import Lengths, assumed, hardest, longest_of

__all__ = [
    "Lengths",
    "MemoryEstimate",
    "assumed",
    "available_bytes",
    "estimate",
    "hardest",
    "longest_of",
]
