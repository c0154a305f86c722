"""Regret, worst case, total and top-n against values worked out by hand, with cells missing, and their properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.grids import Grid, GridRun, Pair, Plan, beside_each_other, never_begun, split_grids, varying_settings
from analysis.regret import best_by_objective, fastest, list_missing, median_times, rank_pairs, run_times

A, B, C = Pair(32, 1), Pair(32, 2), Pair(64, 2)
TIMES = {"small": {A: 10.0, B: 8.0, C: 9.0}, "large": {A: 30.0, B: 40.0, C: 33.0}}


def run(model: str, pair: Pair, seconds: float | None, status: str = "ok", reason: str = "", place: str = "here",
        **params: object) -> GridRun:
    return GridRun(f"{model}-{pair}-{seconds}", status, reason, None, place,
                   {"model": model, "batch_size": pair.batch_size, "workers": pair.workers, **params}, seconds)


def test_the_three_objectives_by_hand() -> None:
    rows = {row.pair: row for row in rank_pairs(TIMES, [A, B, C], top=1)}
    assert rows[A].mean_regret == pytest.approx((2 / 8 + 0) / 2)
    assert rows[B].mean_regret == pytest.approx((0 + 10 / 30) / 2)
    assert rows[C].mean_regret == pytest.approx((1 / 8 + 3 / 30) / 2)
    assert (rows[A].worst_regret, rows[A].worst_model) == (0.25, "small")
    assert rows[C].worst_regret == pytest.approx(0.125)
    assert [rows[pair].total_s for pair in (A, B, C)] == [40, 48, 42]
    assert [rows[pair].top_n for pair in (A, B, C)] == [1, 1, 0]
    ranked = rank_pairs(TIMES, [A, B, C])
    assert [row.pair for row in ranked] == [C, A, B]
    best = best_by_objective(ranked)
    assert (best["mean_regret"].pair, best["worst_regret"].pair, best["total_s"].pair) == (C, C, A)


def test_ties_at_the_last_place_are_kept() -> None:
    cells = {A: 1.0, B: 2.0, C: 2.0, Pair(64, 4): 3.0}
    assert fastest(cells, 1) == {A}
    assert fastest(cells, 2) == {A, B, C}
    assert fastest(cells, 3) == {A, B, C}
    assert fastest(cells, 99) == set(cells)


def test_a_cell_missing_for_one_model_is_not_eligible_and_is_listed() -> None:
    runs = [run("small", A, 10), run("small", B, 8), run("large", A, 30),
            run("large", B, None, "oom", "out of memory in batch 0"), run("small", C, 1)]
    (grid,) = split_grids(runs, {})
    rows = {row.pair: row for row in rank_pairs(median_times(grid, grid.models), grid.pairs)}
    # The cell that only one model has is that model's best all the same: regret counts from it.
    assert rows[A].mean_regret == pytest.approx(((10 - 1) / 1 + 0) / 2)
    assert not rows[B].eligible and rows[B].missing_models == ("large",) and rows[B].total_s is None
    assert rows[C].missing_models == ("large",) and rows[C].top_n == 1
    reasons = {(gap.model, gap.pair): gap.reason for gap in list_missing(grid, grid.models)}
    assert reasons == {("large", B): "oom: out of memory in batch 0", ("large", C): "no run"}


def test_what_was_planned_and_never_begun_are_runs_where_the_last_one_was_measured() -> None:
    runs = [run("small", A, 10, place="before"), run("small", A, 11), run("large", A, None, "cancelled")]
    runs = [one._replace(sweep_id="s") for one in runs]
    plan = Plan("s", "", "", "cancelled", 8, 2, {"grid": {"model": ["small", "large"], "workers": [1, 2]},
                                                  "fixed": {"batch_size": 32}, "repeats": 2},
                [one.params for one in runs])
    usual = {"": {"image_size": 224, "workers": 4}}
    found = never_begun(runs, [plan], usual)
    assert [(one.params["model"], one.params["workers"], one.place, one.status) for one in found] == [
        ("small", 2, "here", "not begun"), ("small", 2, "here", "not begun"), ("large", 1, "here", "not begun"),
        ("large", 2, "here", "not begun"), ("large", 2, "here", "not begun")]
    assert not any(one.counts for one in found) and found[0].params["image_size"] == 224
    assert never_begun([], [plan], usual) == [], "without a run nobody knows where it would have been measured"


def test_a_model_without_any_time_leaves_no_cell_eligible() -> None:
    (grid,) = split_grids([run("small", A, 10), run("large", A, None, "failed", "boom")], {})
    rows = rank_pairs(median_times(grid, grid.models), grid.pairs)
    assert [row.eligible for row in rows] == [False] and best_by_objective(rows) == {}


def test_the_median_over_runs_is_taken_and_a_time_of_zero_is_none() -> None:
    (grid,) = split_grids([run("small", A, 9), run("small", A, 10), run("small", A, 50), run("small", B, 0.0)], {})
    assert median_times(grid, ["small"]) == {"small": {A: 10}}


def test_another_parameter_place_or_format_is_another_grid() -> None:
    runs = [run("small", A, 10), run("small", A, 5, format="memmap"), run("small", A, 7, place="there"),
            run("small", A, 8, image_size=64), run("small", A, 11, format="jpeg")]
    grids = split_grids(runs, {"": {"format": "jpeg", "image_size": 224}})
    assert [sum(map(len, grid.runs.values())) for grid in grids] == [2, 1, 1, 1]  # a run without a format was jpeg
    assert varying_settings(grids) == ["format", "image_size"]
    together = [[grid.format for grid in group] for group in beside_each_other(grids)]
    assert ["jpeg", "memmap"] in together and len(together) == 3


def test_runs_without_a_batch_size_are_in_no_grid() -> None:
    assert split_grids([GridRun("x", "ok", "", None, "here", {"batch_size": None, "workers": True}, 1.0)], {}) == []


def test_unequal_work_is_noticed() -> None:
    (grid,) = split_grids([run("m", A, 10)._replace(items=32.0), run("m", B, 10)._replace(items=64.0)], {})
    assert grid.unequal_work and median_times(grid, ["m"], per_item=True)["m"][B] == 10 / 64
    (grid,) = split_grids([run("m", A, 10)._replace(items=9216.0), run("m", B, 10)._replace(items=9216.0)], {})
    assert not grid.unequal_work


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
seconds = st.floats(1e-6, 1e6, allow_nan=False)
pairs = st.builds(Pair, st.integers(1, 1024), st.integers(0, 64))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, dict[Pair, float]]:
    cells = draw(st.lists(pairs, min_size=1, max_size=6, unique=True))
    return {f"m{number}": {pair: draw(seconds) for pair in cells} for number in range(draw(st.integers(1, 4)))}


@unhurried
@given(tables())
def test_regret_is_never_negative_and_somebody_has_none(times: dict[str, dict[Pair, float]]) -> None:
    rows = rank_pairs(times, list(next(iter(times.values()))))
    assert all(row.mean_regret is not None and 0 <= row.mean_regret <= row.worst_regret * (1 + 1e-9) for row in rows
               if row.worst_regret is not None)
    if len(times) == 1:
        assert rows[0].mean_regret == 0
    assert sum(row.top_n for row in rows) >= len(times)


@unhurried
@given(pairs, st.dictionaries(st.text(max_size=3), seconds, min_size=1))
def test_a_single_cell_has_no_regret(pair: Pair, times: dict[str, float]) -> None:
    (row,) = rank_pairs({model: {pair: value} for model, value in times.items()}, [pair])
    assert row.mean_regret == row.worst_regret == 0 and row.top_n == len(times)


@unhurried
@given(tables(), st.integers(-20, 20), st.integers(0, 3))
def test_scaling_a_models_times_changes_nothing(times: dict[str, dict[Pair, float]], power: int, which: int) -> None:
    scaled = dict(times)
    model = list(times)[which % len(times)]
    scaled[model] = {pair: math.ldexp(value, power) for pair, value in times[model].items()}
    cells = list(times[model])
    before, after = rank_pairs(times, cells), rank_pairs(scaled, cells)
    assert [(row.pair, row.mean_regret, row.worst_regret, row.top_n) for row in before] == \
           [(row.pair, row.mean_regret, row.worst_regret, row.top_n) for row in after]


def test_a_grid_is_named_by_what_it_is() -> None:
    grid = Grid("here", {"format": "memmap"})
    assert grid.format == "memmap" and Grid("here", {}).format == "jpeg" and str(Pair(128, 12)) == "128/12"


def test_a_number_of_items_below_one_gives_no_time_per_item() -> None:
    """A store may hold one from before such files were refused."""
    runs = [run("m", A, 10.0)._replace(items=items) for items in (-5.0, 0.0, 2.0)]
    (grid,) = split_grids(runs, {})
    assert run_times(grid, "m", A, per_item=True) == [5.0] and grid.items() == (2.0, 2.0)
