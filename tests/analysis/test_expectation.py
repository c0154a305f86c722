"""Expected time: a cell's own past first, its model's else, and what is unknown stays unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.expectation import Expectation, PastRun, expect, work_of

past = st.lists(st.builds(PastRun, st.sampled_from("abc"), st.sampled_from(["m", "n"]), st.floats(0.01, 100)))
cells = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["m", "n", "o"])), max_size=8)


@given(cells, st.integers(1, 5), past)
def test_the_range_is_a_range_and_grows_with_repeats(asked: list[tuple[str, str]], repeats: int,
                                                     runs: list[PastRun]) -> None:
    found = expect(asked, repeats, runs)
    assert 0 <= found.low_s <= found.high_s
    assert found.exact <= found.cells_known <= len(asked) and found.runs_used <= len(runs)
    assert expect(asked, repeats + 1, runs).high_s >= found.high_s


def test_a_cell_is_judged_by_itself_before_the_same_work() -> None:
    runs = [PastRun("a", "m", 1.0), PastRun("a", "m", 2.0), PastRun("b", "m", 10.0)]
    assert expect([("a", "m")], 3, runs) == Expectation(3.0, 6.0, 1, 1, 2, 1)
    assert expect([("c", "m")], 1, runs) == Expectation(1.0, 10.0, 1, 0, 3, 1)
    assert expect([("c", "other")], 1, runs) == Expectation(0.0, 0.0, 0, 0, 0)


def test_the_same_work_has_the_same_size_whatever_it_is_done_with() -> None:
    base = {"model": "resnet18", "image_size": 64, "images": 384, "batches": None, "batch_size": 8, "workers": 0}
    assert work_of(base) == work_of({**base, "workers": 2, "batch_size": 32, "seed": 7})
    assert work_of(base) != work_of({**base, "image_size": 224}) != work_of({**base, "images": 9216})
    by_batches = {**base, "images": None, "batches": 10}
    assert work_of(by_batches) != work_of({**by_batches, "batch_size": 32})
