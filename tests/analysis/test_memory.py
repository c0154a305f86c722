"""Memory against plain training, depth and time: worked out by hand on a few runs."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.memory import (
    Growth,
    MemoryRun,
    count_layers,
    find_front,
    find_growths,
    find_savings,
    group_cells,
    is_shown_slower,
)
from ui.memory_findings import about_growths


def run(model: str, method: str, peak: float, batch_s: float | None = 1.0, saved: float | None = None,
        **params: Any) -> MemoryRun:
    return MemoryRun(f"{model}-{method}-{peak}", {"model": model, "method": method, **params}, "here", peak, peak * 1.1,
                     saved, None, batch_s, False)


def test_a_method_is_compared_with_plain_training_of_the_same_model() -> None:
    cells = group_cells([run("resnet18", "plain", 100, 1.0), run("resnet18", "plain", 100, 1.1),
                         run("resnet18", "checkpoint", 60, 1.3), run("resnet18", "checkpoint", 60, 1.4),
                         run("vit_b_16", "checkpoint", 10)])
    (saving,) = find_savings(cells)
    assert saving.cell.model == "resnet18" and saving.peak.value == pytest.approx(0.6)
    assert saving.time and saving.time.value == pytest.approx((1.3 * 1.4 / 1.1) ** 0.5)


def test_blocks_set_cells_apart_only_where_they_have_an_effect() -> None:
    cells = group_cells([run("resnet18", method, 100, blocks_per_checkpoint=blocks)
                         for method in ("plain", "checkpoint") for blocks in (1, 2)])
    assert [(cell.method, cell.blocks, len(cell.runs)) for cell in cells] == [
        ("plain", 1, 2), ("checkpoint", 1, 1), ("checkpoint", 2, 1)]


def test_runs_of_other_settings_or_environments_are_told_apart() -> None:
    same = run("a", "plain", 1, batch_size=2, batches=3), run("b", "plain", 1, batch_size=2, batches=9)
    assert same[0].setting == same[1].setting
    assert same[0].setting != run("a", "plain", 1, batch_size=4, batches=3).setting
    assert same[0].setting != same[0]._replace(place="there").setting


def say_growths(growths: list[Growth]) -> str:
    return about_growths(growths).replace("\\", "").replace("**", "")


def test_growth_with_depth() -> None:
    cells = group_cells([run("revnet_3", "reversible", 1, saved=100), run("revnet_18", "reversible", 1, saved=99),
                         run("revnet_9", "reversible", 1, saved=102), run("revnet_3", "plain", 1, saved=100),
                         run("revnet_18", "plain", 1, saved=500), run("resnet18", "plain", 1, saved=7)])
    growths = {one.method: one for one in find_growths(cells)}
    assert growths["reversible"].spread == pytest.approx(102 / 99 - 1)
    assert (growths["plain"].fold, growths["plain"].deepest.model) == (5, "revnet_18")
    assert len(growths) == 2, "one depth does not grow"
    assert "stay within 3.0% from revnet_3 to revnet_18" in say_growths(list(growths.values()))


def test_growth_is_told_of_each_number_of_blocks_and_never_called_flat() -> None:
    cells = group_cells([run(model, "checkpoint", 1, saved=saved, blocks_per_checkpoint=blocks)
                         for model, blocks, saved in (("resnet18", 1, 10), ("resnet50", 1, 40), ("resnet18", 4, 30),
                                                      ("resnet50", 4, 36))])
    cells += group_cells([run("revnet_3", "reversible", 1, saved=100), run("revnet_18", "reversible", 1, saved=512)])
    said = say_growths(find_growths(cells))
    assert "ResNet's saved activations grow 4.0-fold with checkpoint training, from resnet18 to resnet50." in said
    assert "ResNet's saved activations grow by 20% with checkpoint every 4 blocks training" in said
    assert "RevNet's saved activations grow 5.1-fold from revnet_3" in said and "stay within" not in said


def test_layers_are_known_of_resnets_and_revnets_only() -> None:
    assert [count_layers(name) for name in ("revnet_3", "adjusted_resnet34", "resnet18", "vit_b_16", "resnet18x")] == [
        38, 34, 18, None, None]


def test_the_front_leaves_out_what_is_beaten_in_both() -> None:
    cells = group_cells([run("m", "plain", 100, 1.0), run("m", "checkpoint", 60, 1.4), run("m", "selective", 70, 1.5),
                         run("m", "reversible", 50, None)])
    assert [cell.method for cell in find_front(cells)] == ["plain", "checkpoint"]


def test_off_the_front_is_shown_only_where_runs_tell_the_times_apart() -> None:
    cells = group_cells([run("m", "checkpoint", 60, seconds) for seconds in (1.0, 1.01, 1.02)]
                        + [run("m", "plain", 100, seconds) for seconds in (1.1, 0.8, 1.4)]
                        + [run("m", "selective", 70, seconds) for seconds in (2.0, 2.01, 2.02)])
    front = find_front(cells)
    assert [cell.method for cell in front] == ["checkpoint"]
    assert {cell.method: is_shown_slower(cell, front) for cell in cells if cell not in front} == {
        "plain": False, "selective": True}
