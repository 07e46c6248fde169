"""Makes values.json: one linear layer under PEFT's rsLoRA, trained for a few steps.

Run by hand with torch 2.14.1 and peft 0.21.2: `python make.py`. Arrays are float32 in the layout of
torch: weight [outputs, inputs], A [r, inputs], B [outputs, r].
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path

import peft
import torch

RANK, SCALE, STEPS, RATE = 4, 0.5, 5, 0.01


def main() -> None:
    """Write values.json beside this file."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(10, 6, bias=False))
    config = peft.LoraConfig(
        r=RANK, lora_alpha=round(SCALE * RANK), use_rslora=True, target_modules=["0"]
    )
    model = peft.get_peft_model(plain, config)
    layer = model.base_model.model[0]
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    values = {
        "versions": {"torch": torch.__version__, "peft": peft.__version__},
        "rank": RANK,
        "scale": SCALE,
        "rate": RATE,
        "scaling": layer.scaling["default"],
        "weight": layer.base_layer.weight.tolist(),
        "a": a.tolist(),
    }
    x, wanted = torch.randn(7, 10), torch.randn(7, 6)
    optimiser = torch.optim.SGD([a, b], RATE)
    losses = []
    for _ in range(STEPS):
        loss = ((model(x) - wanted) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    values |= {
        "x": x.tolist(),
        "wanted": wanted.tolist(),
        "losses": losses,
        "trained_a": a.tolist(),
        "trained_b": b.tolist(),
        "output": model(x).tolist(),
    }
    text = json.dumps(values, indent=1)
    Path(__file__).with_name("values.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
