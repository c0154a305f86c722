"""The recommended pair: which others cannot be told apart from it, and that the truly best one is seldom ruled out."""

from __future__ import annotations

import math
import random

import pytest

from analysis.comparison import compare_over_models
from analysis.grids import Grid, GridRun, Pair, split_grids
from analysis.recommendation import corrected_level, recommend
from analysis.regret import median_times, rank_pairs

A, B, C = Pair(32, 1), Pair(32, 2), Pair(64, 2)


def grid_of(times: dict[tuple[str, Pair], list[float]]) -> Grid:
    runs = [GridRun(f"{model}{pair}{number}", "ok", "", None, "here",
                    {"model": model, "batch_size": pair.batch_size, "workers": pair.workers}, value)
            for (model, pair), values in times.items() for number, value in enumerate(values)]
    (grid,) = split_grids(runs, {})
    return grid


def ask(grid: Grid):  # type: ignore[no-untyped-def]
    found = recommend(grid, grid.models, rank_pairs(median_times(grid, grid.models), grid.pairs))
    assert found
    return found


def test_one_cell_is_told_apart_and_another_is_not() -> None:
    found = ask(grid_of({("m", A): [1.00, 1.01, 1.02], ("m", B): [1.01, 1.02, 1.03], ("m", C): [5.0, 5.1, 5.2]}))
    assert found.best.pair == A
    assert [other.pair for other in found.tied] == [B] and found.untold == []
    assert [other.pair for other in found.others if other.slower] == [C]
    assert found.level == pytest.approx(1 - 0.05 / 2)


def test_with_one_run_each_nothing_is_told() -> None:
    found = ask(grid_of({("m", A): [1.0], ("m", B): [9.0]}))
    assert [other.pair for other in found.untold] == [B] and found.tied == [] and found.time.low is None


def test_a_pair_with_more_regret_and_a_lower_geometric_mean_is_not_tied() -> None:
    """The best pair is chosen by mean regret and compared by geometric mean: the two can disagree beyond doubt."""
    times = {("a", Pair(1, 1)): 1.0, ("a", Pair(2, 1)): 1.4, ("a", Pair(4, 1)): 10.0,
             ("b", Pair(1, 1)): 1.85, ("b", Pair(2, 1)): 1.4, ("b", Pair(4, 1)): 1.0}
    found = ask(grid_of({cell: [value * part for part in (0.9995, 1.0, 1.0005)] for cell, value in times.items()}))
    assert found.best.pair == Pair(2, 1)
    (quicker,) = found.quicker
    assert quicker.pair == Pair(1, 1) and quicker.ratio.high is not None and quicker.ratio.high < 1
    assert found.tied == [] and [other.pair for other in found.others if other.slower] == [Pair(4, 1)]


def test_models_are_averaged_on_the_logarithm() -> None:
    a, b = [[2.0, 2.2], [10.0, 11.0]], [[1.0, 1.1], [20.0, 22.0]]
    assert compare_over_models(a, b).value == pytest.approx(math.sqrt(2 * 0.5))
    # By hand: four groups, each with the variance of its two logarithms.
    share = math.log(1.1) ** 2 / 2 / 2 / 4
    half = math.sqrt(4 * share)
    from scipy.stats import t

    assert compare_over_models(a, b).high == pytest.approx(math.exp(float(t.ppf(0.975, 4)) * half))


def test_each_comparison_is_made_at_the_corrected_level() -> None:
    assert corrected_level(44) == pytest.approx(1 - 0.05 / 44) and corrected_level(0) == 0.95


def test_the_truly_best_pair_is_seldom_called_slower() -> None:
    """All nine pairs are equally good: each may be called slower than the one that happened to win in 5 % at most."""
    chance, wrong, grids = random.Random(7), 0, 300
    cells = [Pair(batch, workers) for batch in (8, 16, 32) for workers in (1, 2, 4)]
    for _ in range(grids):
        found = ask(grid_of({("m", pair): [math.exp(chance.gauss(0, 0.05)) for _ in range(3)] for pair in cells}))
        wrong += any(other.pair == cells[4] and other.slower for other in found.others)
    assert wrong <= 0.05 * grids


def test_no_pair_for_all_models_means_no_recommendation() -> None:
    grid = grid_of({("m", A): [1.0, 1.0], ("n", B): [1.0, 1.0]})
    assert recommend(grid, grid.models, rank_pairs(median_times(grid, grid.models), grid.pairs)) is None
