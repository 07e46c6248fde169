"""The estimate against what files and published models say, and its parts against each other."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import safe_open

from trainer_core.config import RunConfig
from trainer_core.memory import Lengths, available_bytes, estimate

GOLDEN = Path(__file__).parents[1] / "golden"
FAMILIES = ("llama", "qwen3", "gemma2", "gemma3", "gemma4")


def config(**values: Any) -> RunConfig:
    return RunConfig(**{"model": "m", "data": "d", "rank": 4, **values})


def elements(path: Path) -> int:
    total = 0
    with safe_open(path, "np") as file:
        for name in file.keys():  # noqa: SIM118, not a dict
            count = 1
            for size in file.get_slice(name).get_shape():
                count *= size
            total += count
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_equal_those_of_the_files(golden: Path, family: str) -> None:
    folder = golden / family
    found = estimate(folder, config())
    assert found.parameters == elements(folder / "model.safetensors")
    assert found.stored == found.weights("float32") == 4 * found.parameters
    assert found.dtype == "F32"
    assert not found.quantised


@pytest.mark.parametrize("family", FAMILIES)
def test_the_adapter_is_as_large_as_the_one_peft_made(golden: Path, family: str) -> None:
    folder = golden / family
    made = elements(folder / "init_adapter" / "adapters.safetensors")
    settings = json.loads((folder / "init_adapter" / "adapter_config.json").read_text())
    keys = settings["lora_parameters"]["keys"]
    assert estimate(folder, config(target_modules=keys)).adapter_parameters == made


def test_fewer_layers_and_targets_make_a_smaller_adapter(golden: Path) -> None:
    folder = golden / "llama"
    layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    whole = estimate(folder, config()).adapter_parameters
    last = estimate(folder, config(num_layers=1)).adapter_parameters
    assert last * layers == whole
    queries = estimate(folder, config(target_modules=["q_proj"])).adapter_parameters
    assert (
        queries == estimate(folder, config(target_modules=["self_attn.q_proj"])).adapter_parameters
    )
    assert 0 < queries < whole


def write_model(
    folder: Path, tensors: dict[str, tuple[str, list[int], int]], **settings: Any
) -> None:
    header, offset = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(offset)
    (folder / "model.safetensors").write_bytes(data)
    (folder / "config.json").write_text(json.dumps(settings))


def test_a_quantised_weight_counts_once_with_its_own_bits_and_group_size(tmp_path: Path) -> None:
    # 64 x 256 at 4 bits in groups of 64, and 32 x 64 at 8 bits in groups of 32: MLX's layout.
    a, b = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"
    tensors = {
        f"{a}.weight": ("U32", [64, 32], 64 * 32 * 4),
        f"{a}.scales": ("F16", [64, 4], 64 * 4 * 2),
        f"{a}.biases": ("F16", [64, 4], 64 * 4 * 2),
        f"{b}.weight": ("U32", [32, 16], 32 * 16 * 4),
        f"{b}.scales": ("F16", [32, 2], 32 * 2 * 2),
        f"{b}.biases": ("F16", [32, 2], 32 * 2 * 2),
        "model.norm.weight": ("F16", [64], 128),
    }
    own = {"group_size": 32, "bits": 8}
    write_model(tmp_path, tensors, quantization={"group_size": 64, "bits": 4, b: own})
    found = estimate(tmp_path, config())
    assert found.parameters == 64 * 256 + 32 * 64 + 64
    assert found.stored == sum(size for _, _, size in tensors.values())
    assert found.quantised
    assert found.dtype == "F16"
    assert found.adapter_parameters == 4 * (64 + 256) + 4 * (32 + 64)


def test_routers_and_experts_get_no_adapter(tmp_path: Path) -> None:
    layer = "model.layers.0"
    tensors = {
        f"{layer}.self_attn.q_proj.weight": ("F32", [8, 8], 256),
        f"{layer}.mlp.gate.weight": ("F32", [4, 8], 128),
        f"{layer}.mlp.switch_mlp.up_proj.weight": ("F32", [4, 8, 8], 1024),
        f"{layer}.mlp.experts.0.up_proj.weight": ("F32", [8, 8], 256),
    }
    write_model(tmp_path, tensors)
    assert estimate(tmp_path, config()).adapter_parameters == 4 * 16


def test_longer_and_paired_rows_need_more(golden: Path) -> None:
    folder = golden / "llama"
    short = estimate(folder, config(), longest=64)
    assert estimate(folder, config(), longest=128).total("keep") > short.total("keep")
    assert estimate(folder, config(method="orpo"), longest=64).total("keep") > short.total("keep")
    # Without a known length the option's limit is assumed, and a row is never longer than it.
    limited = estimate(folder, config(max_seq_length=64))
    assert limited == short == estimate(folder, config(max_seq_length=64), longest=10_000)


WAYS = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["sft", "dpo", "orpo"]),
        "head": st.sampled_from(["auto", "full", "chunked", "fused", "flash"]),
        "segment_size": st.sampled_from(["auto", 0, 1, 2, 3]),
        "attention": st.sampled_from(["auto", "sdpa", "blocked"]),
        "batch_size": st.integers(1, 5),
        "grad_accumulation_steps": st.integers(1, 3),
        "rank": st.integers(1, 64),
    }
)


@example(  # a prompt's block of scores once counted fewer keys the longer the answers were
    way={
        "method": "dpo",
        "attention": "blocked",
        "segment_size": 1,
        "head": "fused",
        "batch_size": 1,
        "rank": 4,
    },
    family="llama",
    kind="cpu",
    row=(2, 525),
)
@given(
    way=WAYS,
    family=st.sampled_from(FAMILIES),
    kind=st.sampled_from(["cpu", "cuda", "metal"]),
    row=st.tuples(st.integers(2, 3000), st.integers(0, 3000)),
)
def test_more_never_needs_less_and_the_parts_are_the_whole(
    way: dict[str, Any], family: str, kind: str, row: tuple[int, int]
) -> None:
    folder, (answer, prompt) = GOLDEN / family, row
    lengths = Lengths(prompt + answer, prompt)
    options = {key: value for key, value in way.items() if key != "attention" or kind == "cpu"}

    def total(lengths: Lengths = lengths, **more: Any) -> int:
        found = estimate(folder, config(**{**options, **more}), [lengths], kind)
        parts = found.parts("float32")
        assert sum(parts.values()) == found.total("float32")
        assert all(count >= 0 for count in parts.values())
        return found.total("float32")

    known = total()
    assert known >= estimate(folder, config(**options), [Lengths(2)], kind).weights("float32")
    assert total(Lengths(prompt + answer + 200, prompt)) >= known
    assert total(Lengths(prompt + answer + 200, prompt + 200)) >= known
    assert total(rank=way["rank"] + 1) >= known
    assert total(batch_size=way["batch_size"] + 1) >= known
    if way["method"] != "sft" and prompt > answer + 300:  # long enough to be worth its copies
        assert total(prefix_sharing="off") >= known


def test_available_memory_is_positive() -> None:
    assert available_bytes() > 0
