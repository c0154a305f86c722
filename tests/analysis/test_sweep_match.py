"""Whole sweeps: cells are matched by their parameters, what differs between the sweeps left aside."""

from __future__ import annotations

import pytest

from analysis.side_by_side import Group
from analysis.sweep_match import match_sweeps
from tests.analysis.compared import group


def sweep(name: str, cells: list[int], factor: float, **asked: object) -> list[Group]:
    return [group(*(factor * (cell + 1) * noise for noise in (1.0, 1.01, 0.99)), cell=cell, sweep=name,
                  asked={"batch_size": 8 * (cell + 1), **asked}) for cell in cells]


def test_cells_are_matched_and_the_rest_is_named() -> None:
    found = match_sweeps(sweep("b", [0, 1, 2], 2.0, threads=2), sweep("a", [1, 2, 3], 1.0, threads=1), "end_to_end_s",
                         "s")
    assert found.aside == ["threads"]
    assert [pair.values for pair in found.pairs] == [{"batch_size": 16}, {"batch_size": 24}]
    assert [pair.figure.words for pair in found.pairs] == ["slower", "slower"]
    assert found.only == [{"batch_size": 8}] and found.only_base == [{"batch_size": 32}]
    assert found.overall and found.overall.value == pytest.approx(2) and found.overall.verdict == "higher"


def test_a_parameter_that_varies_in_one_of_them_is_not_left_aside() -> None:
    base = [*sweep("a", [0], 1.0, threads=1), *sweep("a", [0], 1.5, threads=2)]
    found = match_sweeps(sweep("b", [0], 2.0, threads=2), base, "end_to_end_s", "s")
    assert found.aside == [] and len(found.pairs) == 1
    assert found.pairs[0].figure.ratio and found.pairs[0].figure.ratio.value == pytest.approx(2 / 1.5)


def test_the_overall_ratio_leaves_out_single_runs_where_there_are_repeats() -> None:
    mine = [*sweep("b", [0], 2.0), group(9.0, cell=1, sweep="b", asked={"batch_size": 16})]
    found = match_sweeps(mine, sweep("a", [0, 1], 1.0), "end_to_end_s", "s")
    assert found.single == 1 and found.overall and found.overall.value == pytest.approx(2)
    assert found.pairs[1].figure.words == "too few runs to tell"


def test_of_a_cell_measured_in_two_environments_the_later_counts() -> None:
    old = group(9.0, 9.1, sweep="b", environment_id="old", minutes=1, asked={"batch_size": 8})
    new = group(2.0, 2.02, sweep="b", environment_id="new", minutes=500, asked={"batch_size": 8})
    for mine in ([old, new], [new, old]):
        found = match_sweeps(mine, sweep("a", [0], 1.0), "end_to_end_s", "s")
        assert found.overall and found.overall.value == pytest.approx(2, rel=0.02)


def test_nothing_in_common() -> None:
    found = match_sweeps(sweep("b", [0, 1], 1.0), sweep("a", [2, 3], 1.0), "end_to_end_s", "s")
    assert found.pairs == [] and found.overall is None and len(found.only) == len(found.only_base) == 2


def test_sweeps_of_different_experiments_are_not_matched() -> None:
    mine = [one._replace(runs=tuple(run._replace(experiment="training") for run in one.runs))
            for one in sweep("b", [0, 1], 2.0)]
    base = sweep("a", [0, 1], 1.0)
    found = match_sweeps(mine, base, "end_to_end_s", "s")
    assert found.pairs == [] and found.overall is None and found.experiments == ("training", "inference")
    mixed = match_sweeps([mine[0], sweep("b", [1], 2.0)[0]], base, "end_to_end_s", "s")
    assert [pair.values["batch_size"] for pair in mixed.pairs] == [16] and mixed.experiments is None


def test_rounded_times_have_no_verdict_over_all_cells_either() -> None:
    mine = [group(2.0, 2.0, cell=cell, sweep="b") for cell in (0, 1)]
    found = match_sweeps(mine, [group(1.0, 1.0, cell=cell, sweep="a") for cell in (0, 1)], "end_to_end_s", "s")
    assert found.overall and found.overall.value == pytest.approx(2)
    assert found.overall.verdict == "too few runs to tell" and found.single == 0
