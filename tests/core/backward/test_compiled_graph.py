"""SFT's whole graph as one function gives what the graph built anew gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.backward.test_compiled import compiler as compiler
from tests.core.backward.test_paths import check, objective_of, one_step
from tests.core.engine import FAMILIES, random_pairs, relative, small_policy
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.compiled_graph import CompiledGraph
from trainer_core.heads.head import HeadKind


@pytest.fixture(autouse=True)
def _functions_run_as_they_are() -> None:
    """As on any CPU: MLX's compiler is off, because every kernel would wait for g++."""
    mx.disable_compile()


@pytest.mark.parametrize("head", ["chunked", "fused", "flash"])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_exact(golden: Path, family: str, head: HeadKind) -> None:
    wanted = one_step(small_policy(golden / family), whole_graph, "sft")
    policy = replace(small_policy(golden / family, head=head), bucket=8)
    graph = CompiledGraph()
    for size in (3, 1):
        check(one_step(policy, graph, "sft", size=size), wanted)
    made = graph.compilations
    check(one_step(policy, graph, "sft", size=1), wanted)
    assert graph.compilations == made


@pytest.mark.usefixtures("compiler")
def test_nothing_of_one_step_is_baked_in(golden: Path) -> None:
    """New adapter arrays, ids and scored tokens reach a function made before."""
    policy = replace(small_policy(golden / "gemma3", head="fused"), bucket=64)
    objective, graph = objective_of("sft"), CompiledGraph()
    for number, example in enumerate(random_pairs(3, longest=40)):
        for layer in policy.adapter.layers.values():
            layer.lora_b = layer.lora_b + 0.01 * number
        rows = [objective.score(example)]
        totals = objective.totals(rows)
        got, wanted = (
            way(policy, objective, rows, totals, None, 1) for way in (graph, whole_graph)
        )
        assert float(got[0]) == pytest.approx(float(wanted[0]), rel=1e-6)
        assert relative(got[2], wanted[2]) < 1e-6
    assert graph.compilations == 1


def test_another_adapter_starts_afresh(golden: Path) -> None:
    graph, made = CompiledGraph(), []
    for _ in range(2):
        policy = small_policy(golden / "llama", head="fused")
        check(one_step(policy, graph, "sft"), one_step(policy, whole_graph, "sft"))
        made.append(graph.compilations)
    assert made[1] == 2 * made[0]


def test_the_number_of_functions_is_bounded(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.backward.compiled_graph._MOST_FUNCTIONS", 1)
    policy, graph = small_policy(golden / "llama", head="fused"), CompiledGraph()
    check(one_step(policy, graph, "sft", size=1), one_step(policy, whole_graph, "sft"))
    assert graph.compilations > 1
    assert len(graph._functions) == 1
