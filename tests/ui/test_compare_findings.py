"""The sentences of Compare: each says what was shown, what was not, and what could not be told."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.over_time import Era, find_eras
from analysis.side_by_side import Group, compare_figures
from analysis.sweep_match import match_sweeps
from tests.analysis.compared import group, run
from ui.charts import READINGS
from ui.compare_charts import phase_frame
from ui.compare_findings import about_eras, about_figures, about_shift, about_sweeps, tell_shift
from ui.compare_names import Name
from ui.compare_page import about_phases, about_reading
from ui.compare_sweeps import drawn_pairs, pair_frame
from ui.html_export import as_text
from ui.present_page import split_finding


def eras(*seconds: tuple[float, ...]) -> list[Era]:
    """One era for each tuple of runs; torch changes before every one."""
    facts: dict[str, Any] = {str(place): {"libraries": {"torch": f"2.{place}"}} for place in range(len(seconds))}
    return find_eras([run(repeat=10 * place + at, minutes=10 * place + at, seconds=value, environment_id=str(place))
                      for place, values in enumerate(seconds) for at, value in enumerate(values)],
                     facts, "end_to_end_s", "s")


def test_changes_between_single_runs_are_not_said_to_show_no_difference() -> None:
    said = about_eras(eras((1.0,), (1.5,), (0.7,)), "end_to_end_s")
    assert "no difference shown" not in said.lower()
    assert said.startswith("**Too few runs to tell** in end to end") and "at least three times between" in said


def test_changes_are_counted_by_what_could_be_told() -> None:
    some = (1.0, 1.02, 0.98)
    assert about_eras(eras(some, some), "end_to_end_s").startswith("**No difference shown** in end to end by any of 1 ")
    mixed = about_eras(eras(some, some, (1.0,)), "end_to_end_s")
    assert mixed.startswith("**1 no difference shown, 1 too few runs to tell** in") and "three times between" in mixed
    slower = about_eras(eras(some, (1.5, 1.52, 1.48), (1.0,)), "end_to_end_s")
    assert slower.startswith("**Slower** after torch 2") and "1 slower, 1 too few runs to tell." in slower


SLOW, FAST = (1.5, 1.52, 1.48), (1.0, 1.02, 0.98)
LONG = "a sweep; with <signs>: " + "and a long name " * 8


def sweeps(*seconds: float) -> str:
    def cells(name: str, values: tuple[float, ...]) -> list[Group]:
        return [group(*values, sweep=name)]
    return about_sweeps(match_sweeps(cells("b", seconds), cells("a", FAST), "end_to_end_s", "s"), LONG, LONG + "2",
                        "end_to_end_s")


def test_a_slides_headline_has_the_verdict_side_by_side() -> None:
    names = [Name("A", "one"), Name("B", LONG)]
    for values, verdict in ((SLOW, "is slower"), (FAST, "No difference shown"), ((1.0,), "Too few runs to tell")):
        figures = compare_figures([group(*FAST), group(*values, cell=1)], 0, "end_to_end_s", "s")
        head, rest = split_finding(about_figures(figures, names, 0))
        assert verdict in as_text(head) and "B (a sweep; with <signs>:" in as_text(head)
        assert as_text(rest).startswith("Baseline A, end to end: 1"), rest
        assert "times A" in as_text(head)
    many = [group(*FAST), *(group(*SLOW, cell=cell) for cell in range(1, 6))]
    letters = [Name(letter, LONG) for letter in "ABCDEF"]
    head, _ = split_finding(about_figures(compare_figures(many, 0, "end_to_end_s", "s"), letters, 0))
    assert head == "Of 5 others, against **A**: **5 slower**."


def test_a_slides_headline_has_the_verdict_of_whole_sweeps_with_long_names() -> None:
    for values, verdict in ((SLOW, "is slower than"), (FAST, "No difference shown")):
        head, rest = split_finding(sweeps(*values))
        assert verdict in as_text(head) and head.count("**") % 2 == 0
        assert "times, end to end over 1 matched cell" in as_text(rest)


def test_a_slides_headline_has_the_verdict_over_time() -> None:
    head, rest = split_finding(about_eras(eras(FAST, SLOW), "end_to_end_s"))
    assert as_text(head).startswith("Slower after torch 2.0 → 2.1 (change 1): 1.50 times [1.")
    assert "1 change of the environment over 6 runs: 1 slower." in as_text(rest)
    found = eras(FAST, SLOW, FAST)
    long = [era._replace(changes=tuple(change._replace(name="x" * 90) for change in era.changes)) for era in found]
    head, rest = split_finding(about_eras(long, "end_to_end_s"))
    assert as_text(head).startswith("Slower after x") and "1.50 times" in head and "aster" in rest


def test_the_longest_is_so_by_its_time_and_not_by_the_sum_of_phases_that_overlap() -> None:
    overlapping = group(1.0, phases_s={"load_data": 0.9, "inference": 0.9})
    plain = group(1.2, cell=1, phases_s={"load_data": 0.6, "inference": 0.6})
    names = [Name("A", "overlaps"), Name("B", "does not")]
    said = as_text(about_phases(phase_frame([overlapping, plain], names), per_item=True))
    assert said.startswith("The longest is B with 12 ms per item, the shortest A with 10 ms")
    assert as_text(about_phases(phase_frame([overlapping], names[:1]), True)).startswith("load_data takes 90% of the")


def test_two_runs_that_differ_wildly_could_not_have_shown_a_shift() -> None:
    names = [Name("A", "one"), Name("B", "two"), Name("C", "three")]
    wild, calm = group(1.0, 50.0, cell=1), group(*SLOW, cell=2)
    figures = compare_figures([group(1.0, 40.0), wild], 0, "end_to_end_s", "s")
    said = about_shift(figures, names)
    assert "nothing" not in said and "even a shift of 100 times would have been missed" in said
    assert tell_shift(figures[1].shift) == "only > 100 times"
    both = as_text(about_shift(compare_figures([group(*FAST), wild, calm], 0, "end_to_end_s", "s"), names))
    assert "% (C) to only > 100 times (B) would have been shown" in both


def test_of_many_matched_cells_the_ends_are_drawn() -> None:
    def cells(name: str, factor: float) -> list[Group]:
        return [group(*(value * (1 + factor * cell) for value in FAST), cell=cell, sweep=name) for cell in range(45)]
    frame = pair_frame(match_sweeps(cells("b", 1.0), cells("a", 0.0), "end_to_end_s", "s"))
    drawn, note = drawn_pairs(frame)
    assert [round(ratio) for ratio in drawn["ratio"]] == [*range(1, 21), *range(26, 46)]
    assert note.startswith("Drawn are the 20 lowest and the 20 highest of 45 ratios")
    assert drawn_pairs(frame.head(40))[1] == "" and len(drawn_pairs(frame.head(40))[0]) == 40


@pytest.mark.parametrize("title", [title for title, _ in READINGS.values()])
def test_a_reading_is_told_with_its_name_and_unit(title: str) -> None:
    name, unit = title.rstrip(")").split(" (")
    frame = pd.DataFrame({"letter": ["A", "A", "B"], "value": [1.0, 2.0, 4.0]})
    assert about_reading(frame, title) == (
        f"{name}: **B** has the highest mean, 4 {unit}; **A** the lowest, 1.5 {unit}.")
    assert about_reading(frame.head(2), title) == f"{name}: **A** has a mean of 1.5 {unit}."
