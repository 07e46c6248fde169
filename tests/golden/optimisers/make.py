"""Makes values.json: what torch's optimisers and transformers' schedules do with fixed gradients.

Run by hand with torch 2.14.1 and transformers 5.24.0: `python make.py`. Arrays are float32, in the
layout of torch: A [r, inputs], B [outputs, r]. Muon's iterations run in float32 here, not in
bfloat16, so that they can be compared closely.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers

STEPS, RATE, DECAY = 6, 0.02, 0.1
SHAPES = {"q.lora_a": (3, 7), "q.lora_b": (5, 3), "q.m": (5,)}
RULES = {
    "adamw": lambda p: torch.optim.AdamW(p, RATE, weight_decay=DECAY),
    "adam": lambda p: torch.optim.Adam(p, RATE),
    "sgd": lambda p: torch.optim.SGD(p, RATE, weight_decay=DECAY),
    "adafactor": lambda p: torch.optim.Adafactor(p, RATE, weight_decay=DECAY),
}


def gradients(step: int) -> dict[str, torch.Tensor]:
    """The same for every rule; small, so that no floor is hidden."""
    made = torch.Generator().manual_seed(100 + step)
    return {n: 0.1 * torch.randn(s, generator=made) for n, s in SHAPES.items()}


def run(name: str, ratio: float = 1.0) -> dict[str, list]:
    """The parameters after all steps."""
    made = torch.Generator().manual_seed(1)
    values = {n: torch.randn(s, generator=made).requires_grad_() for n, s in SHAPES.items()}
    if name == "muon":
        matrices = [v for v in values.values() if v.ndim == 2]
        vectors = [v for v in values.values() if v.ndim != 2]
        used = [
            torch.optim.Muon(matrices, RATE, weight_decay=DECAY),
            torch.optim.AdamW(vectors, RATE, weight_decay=DECAY),
        ]
    elif ratio != 1.0:
        # As PEFT's create_loraplus_optimizer groups them: B, and what has one dimension.
        fast = [v for n, v in values.items() if n.endswith("lora_b") or v.ndim == 1]
        groups = [
            {"params": [values["q.lora_a"]], "lr": RATE},
            {"params": fast, "lr": RATE * ratio},
        ]
        used = [torch.optim.AdamW(groups, RATE, weight_decay=DECAY)]
    else:
        used = [RULES[name](list(values.values()))]
    for step in range(STEPS):
        for n, g in gradients(step).items():
            values[n].grad = g
        for optimiser in used:
            optimiser.step()
    return {n: v.tolist() for n, v in values.items()}


def schedule(name: str, total: int, warmup: int) -> list[float]:
    """Multipliers at the steps that transformers numbers 0 to total."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], 1.0)
    made = transformers.get_scheduler(name, optimiser, warmup, total)
    found = []
    for _ in range(total + 1):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        made.step()
    return found


def main() -> None:
    """Write values.json beside this file."""
    made = torch.Generator().manual_seed(1)
    start = {n: torch.randn(s, generator=made).tolist() for n, s in SHAPES.items()}
    torch.Tensor.bfloat16 = lambda self: self  # type: ignore[method-assign]
    values = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "rate": RATE,
        "decay": DECAY,
        "start": start,
        "gradients": [{n: g.tolist() for n, g in gradients(k).items()} for k in range(STEPS)],
        "after": {n: run(n) for n in (*RULES, "muon")} | {"lora_plus_16": run("adamw", 16.0)},
        "schedules": {
            name: schedule(name, 10, 3) for name in ("linear", "cosine", "constant_with_warmup")
        },
    }
    text = json.dumps(values, indent=1)
    Path(__file__).with_name("values.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
