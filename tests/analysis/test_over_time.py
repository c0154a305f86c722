"""One cell over time: each change of its environment begins an era, named with what changed and what it did."""

from __future__ import annotations

from typing import Any

from analysis.over_time import find_eras, machine_of
from analysis.side_by_side import ComparedRun
from tests.analysis.compared import run

FACTS: dict[str, Any] = {
    "old": {"hostname": "a", "libraries": {"torch": "2.14"}, "git_commit": "1" * 40},
    "new": {"hostname": "a", "libraries": {"torch": "2.15"}, "git_commit": "1" * 40},
    "patched": {"hostname": "a", "libraries": {"torch": "2.15"}, "git_commit": "2" * 40},
    "elsewhere": {"hostname": "b", "libraries": {"torch": "2.15"}, "git_commit": "2" * 40}}


def runs(environment: str, first: int, *seconds: float, **more: Any) -> list[ComparedRun]:
    return [run(repeat=first + place, minutes=first + place, seconds=value, environment_id=environment, **more)
            for place, value in enumerate(seconds)]


def test_an_upgrade_that_cost_something_and_a_commit_that_did_not() -> None:
    found = find_eras([*runs("patched", 20, 1.5, 1.52, 1.48), *runs("old", 0, 1.0, 1.02, 0.98),
                       *runs("new", 10, 1.51, 1.5, 1.49)], FACTS, "end_to_end_s", "s")
    assert [len(era.runs) for era in found] == [3, 3, 3]
    assert [era.figure.words for era in found] == [None, "slower", "no difference shown"]
    assert [[change.name for change in era.changes] for era in found] == [[], ["libraries torch"], ["git_commit"]]
    assert (found[1].changes[0].before, found[1].changes[0].after) == ("2.14", "2.15")


def test_commits_can_be_left_aside() -> None:
    found = find_eras([*runs("new", 0, 1.0, 1.1), *runs("patched", 10, 1.0, 1.1)], FACTS, "end_to_end_s", "s", False)
    assert len(found) == 1 and len(found[0].runs) == 4


def test_what_took_effect_is_a_change_too() -> None:
    found = find_eras([*runs("new", 0, 1.0, 1.1, effective={"workers": 4}),
                       *runs("new", 10, 1.0, 1.1, effective={"workers": 2})], FACTS, "end_to_end_s", "s")
    assert [change.name for change in found[1].changes] == ["in effect: workers"]


def test_machines_are_told_apart_and_runs_without_the_figure_left_out() -> None:
    here, there = runs("new", 0, 1.0), runs("elsewhere", 1, 1.0)
    assert machine_of(here[0], FACTS) != machine_of(there[0], FACTS)
    assert find_eras(here, FACTS, "accuracy", None) == []
