"""What makes groups incomparable is said: machines, versions, noise, settings; and nothing where all is well."""

from __future__ import annotations

from typing import Any

from analysis.comparability import find_doubts, find_sweep_doubts
from analysis.side_by_side import Group
from tests.analysis.compared import group

FACTS: dict[str, Any] = {
    "env": {"hostname": "a", "cpu_model": "X", "libraries": {"torch": "2.15"}, "git_commit": "1" * 40},
    "torch": {"hostname": "a", "cpu_model": "X", "libraries": {"torch": "2.14"}, "git_commit": "1" * 40},
    "host": {"hostname": "b", "cpu_model": "Y", "libraries": {"torch": "2.15"}, "git_commit": "2" * 40}}


def kinds(*groups: Group) -> dict[str, str]:
    return {doubt.kind: doubt.text for doubt in find_doubts(groups, "ABCDEFGHIJKL"[:len(groups)], 0, FACTS)}


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1)) == {}


def test_other_machines_versions_and_code() -> None:
    found = kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, environment_id="host"))
    assert "hostname a, b" in found["machine"] and "1111111111, 2222222222" in found["code"]
    found = kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, environment_id="torch"))
    assert set(found) == {"versions"} and "torch 2.15, 2.14" in found["versions"]


def test_imported_runs_have_an_unknown_machine() -> None:
    found = kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, environment_id="", imported=True))
    assert "Imported: B" in found["machine"]


def test_noisy_lost_and_few_runs() -> None:
    found = {doubt.text for doubt in find_doubts(
        [group(1.0, 1.1, noisy=True), group(1.0, 1.1, 1.2, cell=1, status="failed")], "AB", 0, FACTS)}
    assert any("A (2 of 2)" in text for text in found)
    assert any("Fewer than 3 runs of a cell: A" in text for text in found)
    assert any("3 failed" in text for text in found)
    assert set(kinds(group(1.0, 1.1, 1.2), group(1.0, cell=1, status="failed"))) == {"lost"}


def test_two_settings_at_once_cannot_be_told_apart() -> None:
    assert "settings" not in kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1))
    found = kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, asked={"workers": 4}))
    assert "B differs from the baseline in 2 settings (batch_size, workers)" in found["settings"]


def test_another_question() -> None:
    assert "inference, loading" in kinds(group(1.0, 1.1, 1.2),
                                         group(1.0, 1.1, 1.2, cell=1, experiment="loading"))["question"]


def test_sweeps_measured_one_after_the_other_may_have_drifted_apart() -> None:
    later = group(1.0, 1.1, 1.2, cell=1, sweep="s2", minutes=200)
    assert "3 hours apart" in kinds(group(1.0, 1.1, 1.2), later)["order"]
    soon = group(1.0, 1.1, 1.2, cell=1, sweep="s2", minutes=4)
    assert "60 seconds apart" in kinds(group(1.0, 1.1, 1.2), soon)["order"]
    assert "order" not in kinds(group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, sweep="s2"))


def test_cells_that_a_sweep_got_later_were_not_measured_in_turns() -> None:
    one, soon = group(1.0, 1.1, 1.2), group(1.0, 1.1, 1.2, cell=1, minutes=10)
    assert "order" not in kinds(one, soon), "a sweep shuffles its cells; the few minutes of one pass are no drift"
    later = group(1.0, 1.1, 1.2, cell=1, minutes=14 * 24 * 60)
    assert "14 days apart" in kinds(one, later)["order"]


def test_sweeps_as_wholes_with_few_runs_of_a_cell() -> None:
    enough, few = [group(1.0, 1.1, 1.2)], [group(1.0, 1.1, cell=cell, sweep="s2") for cell in range(3)]
    found = {doubt.kind: doubt.text for doubt in find_sweep_doubts({"s1": enough, "s2": few},
                                                                   {"s1": "one", "s2": "other"}, FACTS)}
    assert "Fewer than 3 runs of a cell: other." in found["runs"]
