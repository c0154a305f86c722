"""What the view of search strategies draws and says, from numbers that are known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.strategies import SearchRun, StrategyTimes, Winner, compare_strategies
from engine.search_outline import outline
from engine.search_plan import lower_bound
from engine.search_tree import Snapshot
from engine.synthetic_snapshots import draw_descent, names_of
from ui.strategies_charts import (
    faster_dots,
    faster_frame,
    group_bars,
    group_frame,
    scaling_lines,
    tree_frame,
    tree_rectangles,
)
from ui.strategies_findings import (
    about_faster,
    about_groups,
    about_scaling,
    about_tree,
    about_winners,
    published_note,
)


def cells(*times: tuple[str, list[float]], snapshots: str = "half") -> list[StrategyTimes]:
    return compare_strategies([
        SearchRun(snapshots, "same", strategy, seconds, {"inference": 0.75 * seconds, "score": 0.25 * seconds},
                  1000 / number, 10, 35, 1024) for number, (strategy, runs) in enumerate(times, 1) for seconds in runs])


def test_the_sentence_has_the_ratio_its_interval_and_the_work() -> None:
    compared = cells(("exhaustive", [10.0, 10.1, 9.9]), ("shared_prefix", [2.0, 2.02, 1.98]))
    assert about_faster(compared) == ("Fastest against exhaustive. **half differs**: shared prefix, 5.0 times (95 % "
                                      "interval 4.9 to 5.1), with 2.0 times less work.")
    assert about_groups(compared) == "**shared prefix** takes 2.00 s; 75% of it is inference."
    overlapping = compare_strategies([SearchRun("half", "same", "halving", 2.0, {"inference": 2.0, "load_state": 0.5},
                                                1000, 10, 35, 1024)])
    assert about_groups(overlapping) == (
        "**halving** takes 2.00 s; 80% of it is inference. halving: the groups add up to 2.50 s and the clock shows "
        "2.00 s, because they overlap on the device; shares are of their sum.")
    assert faster_dots(faster_frame(compared)).to_dict()["layer"]
    assert group_bars(group_frame(compared)).to_dict()["encoding"]["x"]["title"] == "Time of a search (s)"


@pytest.mark.parametrize(("times", "said"), [
    ([("exhaustive", [10.0]), ("halving", [2.0])], "too few runs to tell"),
    ([("exhaustive", [10.0, 14.0]), ("halving", [9.0, 13.0])], "no difference shown"),
    ([("exhaustive", [10.0, 10.01]), ("halving", [2.0, 2.001])], ", from two runs only)"),
    ([("halving", [2.0, 2.0])], "nothing to compare with"),
])
def test_what_cannot_be_told_is_not_told(times: list[tuple[str, list[float]]], said: str) -> None:
    assert said in about_faster(cells(*times))


@settings(deadline=None, max_examples=40)
@given(models=st.integers(1, 60), seed=st.integers(0, 5), distribution=st.sampled_from(["top_layers", "half"]))
def test_the_tree_covers_every_models_blocks_once(models: int, seed: int, distribution: str) -> None:
    """A rectangle is as tall as the models that share it, and together they are every block of every model."""
    named = names_of(draw_descent(distribution, models, 12, seed), 12)
    snapshots = [Snapshot(f"m{number}", blocks) for number, blocks in enumerate(named)]
    parts = outline(snapshots)
    frame = tree_frame(parts, [{"model": "m0"}])
    area = ((frame["Last block"] - frame["left"]) * (frame["bottom"] - frame["top"])).sum()
    assert area == models * 12
    assert (frame["bottom"] - frame["top"] == frame["Models"]).all(), "models that share a part stand together"
    assert (frame["Last block"] - frame["left"]).sum() == lower_bound(snapshots, 1)
    assert frame["best"].sum() == 1


def test_whether_the_winner_was_kept_is_said() -> None:
    found = {"exhaustive": Winner("a_1", 1), "halving": Winner("b", 3), "shared_prefix": Winner("a_1", 1),
             "shared_prefix_halving": Winner("a_2", 1)}
    assert about_winners(found, 35) == (
        "Exhaustive search ranks **a\\_1** first of 35 models. Its winner was also found by shared prefix, shared "
        "prefix + halving. Not by halving: its best, **b**, has rank 3 under exhaustive.")
    assert about_winners({"halving": Winner("b", None)}, 2) == (
        "Best of 2 models: **b** (halving). The same store was not searched exhaustively: whether that finds the same "
        "one is not known.")
    assert about_winners({"exhaustive": Winner("a", 1)}, 2) == "Exhaustive search ranks **a** first of 2 models."


def test_the_tree_in_words() -> None:
    parts: list[dict[str, Any]] = [
        {"before": None, "first": 1, "last": 6, "models": 3, "ends": []},
        {"before": 0, "first": 7, "last": 10, "models": 1, "ends": ["a"]},
        {"before": 0, "first": 7, "last": 8, "models": 2, "ends": []},
        {"before": 2, "first": 9, "last": 10, "models": 1, "ends": ["b"]},
        {"before": 2, "first": 9, "last": 10, "models": 1, "ends": ["c"]}]
    assert about_tree(parts) == (
        "3 models have 30 blocks, 16 of them distinct: with shared prefixes an item runs 53% of what it does model by "
        "model. The part that saves most is blocks 1 to 6, shared by 3 models.")
    assert tree_rectangles(tree_frame(parts, [{"model": "b"}])).to_dict()["layer"]


def test_scaling_and_published_figures_in_words() -> None:
    assert about_scaling({"exhaustive": 7200.0, "halving": 72.0}, 50_000) == (
        "At 50,000 models exhaustive would take 2 h 0 min, **halving** 72.0 s: 100 times less.")
    assert "Too few" in about_scaling({"exhaustive": 7200.0, "halving": 0.0}, 50_000)
    assert published_note(["mine"]) == ""
    assert "4.9 (half differs) times" in published_note(["half"])
    import pandas as pd

    frame = pd.DataFrame([{"Strategy": "halving", "Models": models, "Time (s)": 1.0, "Block-item pairs": 2.0}
                          for models in (10, 35)])
    assert scaling_lines(frame, "s").to_dict()["layer"]
