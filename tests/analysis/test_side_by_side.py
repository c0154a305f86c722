"""Repeats become one group, figures stand against the baseline's, and words fit what is measured."""

from __future__ import annotations

import pytest

from analysis.comparison import compare
from analysis.side_by_side import (
    PER_ITEM,
    compare_figures,
    environment_rows,
    group_runs,
    list_metrics,
    parameter_rows,
    phase_values,
    say_verdict,
)
from tests.analysis.compared import group, run


def test_repeats_of_a_cell_are_one_group_and_others_are_not() -> None:
    groups = group_runs([run(0, 1), run(1, 1), run(0, 2), run(0, 3, status="failed"), run(0, 1, sweep="s2")])
    assert [(len(one.runs), len(one.lost)) for one in groups] == [(2, 1), (1, 0), (1, 0)]
    assert [one.token for one in groups] == ["s1-0000000000", "s1-0000000001", "s2-0000000000"]


def test_a_cell_measured_in_two_environments_is_two_groups() -> None:
    groups = group_runs([run(repeat=1), run(repeat=2, environment_id="other")])
    assert [one.token for one in groups] == ["s1-0000000000~env", "s1-0000000000~other"]


def test_times_and_rates_are_faster_or_slower_and_nothing_else_is() -> None:
    more = compare([2.0, 2.02, 1.98], [1.0, 1.01, 0.99])
    less = compare([1.0, 1.01, 0.99], [2.0, 2.02, 1.98])
    assert (say_verdict(more, "end_to_end_s", "s"), say_verdict(less, "end_to_end_s", "s")) == ("slower", "faster")
    assert say_verdict(more, "steady_items_per_s", "items/s") == "faster"
    assert say_verdict(less, "items_per_s", None) == "slower"
    assert say_verdict(more, "peak_memory_bytes", "bytes") == "higher"
    assert say_verdict(less, "accuracy", None) == "lower"
    for metric in ("unaccounted_s", "tensor_peak_at_s", "load_state_computed_s", "priced_inference_s"):
        assert say_verdict(more, metric, "s") == "higher", metric
    assert say_verdict(compare([1.0], [2.0]), "end_to_end_s", "s") == "too few runs to tell"


def test_figures_against_the_baseline() -> None:
    groups = [group(1.0, 1.02, 0.98), group(2.0, 2.02, 1.98, cell=1), group(1.0, cell=2)]
    base, slow, single = compare_figures(groups, 0, "end_to_end_s", "s")
    assert base.words is None and base.ratio is None and base.value and base.value.value == pytest.approx(1, rel=1e-3)
    assert slow.words == "slower" and slow.ratio and slow.ratio.value == pytest.approx(2, rel=1e-3)
    assert single.words == "too few runs to tell" and single.shift is None
    turned = compare_figures(groups, 1, "end_to_end_s", "s")
    assert turned[0].words == "faster" and turned[1].words is None


def test_equal_times_were_rounded_and_equal_counts_are_equal() -> None:
    def words(metric: str, unit: str | None, *values: float) -> str | None:
        groups = [group(1.0, 1.0, 1.0, metrics={metric: 2.0}), group_runs(
            run(1, repeat, metrics={metric: value}) for repeat, value in enumerate(values, 1))[0]]
        return compare_figures(groups, 0, metric, unit)[1].words
    assert words("end_to_end_s", "s", 2.1, 2.1, 2.1) == "too few runs to tell"
    assert words("end_to_end_s", "s", 2.0, 2.0) == "too few runs to tell"
    assert words("images_per_s", None, 3.0, 3.0) == "too few runs to tell"
    assert words("end_to_end_s", "s", 4.0, 4.01, 4.02) == "slower"
    assert words("peak_memory_bytes", "bytes", 3.0, 3.0) == "higher"
    assert words("peak_memory_bytes", "bytes", 2.0, 2.0) == "no difference shown"
    assert words("load_state_computed_s", "s", 1.0, 1.0) == "lower"


def test_zero_has_no_ratio_and_what_is_missing_is_not_measured() -> None:
    groups = [group(1.0, 1.1, metrics={"overlapped_s": 0.0}), group(1.0, 1.1, cell=1, metrics={"overlapped_s": 0.5}),
              group(1.0, 1.1, cell=2, metrics={})]
    words = [figure.words for figure in compare_figures(groups, 0, "overlapped_s", "s")]
    assert words == [None, "no ratio", "not measured"]


def test_time_per_item_is_told_first_where_the_work_differs() -> None:
    same = [group(1.0, 1.1), group(1.0, 1.1, cell=1)]
    other = [*same, group(1.0, 1.1, cell=2, metrics={"end_to_end_s": 1.0, "items": 50.0})]
    assert PER_ITEM not in list_metrics(same)
    assert list_metrics(other)[0] == PER_ITEM
    assert other[2].values(PER_ITEM) == [0.02, 0.02]


def test_what_took_effect_counts_before_what_was_asked() -> None:
    groups = [group(1.0, asked={"threads": None}, effective={"threads": 2}),
              group(1.0, cell=1, asked={"threads": None}, effective={"threads": 4})]
    rows = {row.name: row for row in parameter_rows(groups)}
    assert rows["threads"].values == ("2", "4") and rows["threads"].differs
    assert not rows["workers"].differs and rows["batch_size"].differs


def test_facts_of_environments_are_set_beside_each_other() -> None:
    facts = {"env": {"libraries": {"torch": "2.14"}, "gpus": []},
             "new": {"libraries": {"torch": "2.15"}, "gpus": [{"name": "A100"}]}}
    rows = {row.name: row.values for row in environment_rows([group(1.0), group(1.0, environment_id="new")], facts)}
    assert rows == {"libraries torch": ("2.14", "2.15"), "gpus": ("none", "A100")}


def test_phases_and_what_no_phase_covers_make_up_the_whole() -> None:
    one = group(2.0, 4.0)
    parts = [phase_values(one, phase, per_item=True) for phase in ("load_data", "unaccounted")]
    assert [sum(values) for values in zip(*parts, strict=True)] == pytest.approx([0.02, 0.04])
