"""Live steps back for a run that needs every core, and only when several people watch it."""

from __future__ import annotations

from uuid import uuid4

from ui.pace import EVERY_S, SLOWEST_S, count_viewers, note_cores, pace_s, say_pace


def readings(*cores: float) -> list[dict[str, object]]:
    return [{"metric": "resident_bytes", "value": 1e9}, *({"metric": "run_cpu_cores", "value": used} for used in cores)]


def test_a_run_that_leaves_a_core_is_drawn_every_second_for_everyone() -> None:
    sweep_id = uuid4().hex
    note_cores(sweep_id, readings(2.0, 2.0, 1.0, 1.1, 1.2), 2.0)
    note_cores(sweep_id, [], 2.0)
    assert pace_s(sweep_id, 100) == EVERY_S


def test_a_run_that_fills_the_cores_is_drawn_once_a_second_for_all_together() -> None:
    sweep_id = uuid4().hex
    note_cores(sweep_id, readings(0.2, 1.9, 2.0, 1.95), 2.0)
    assert [pace_s(sweep_id, viewers) for viewers in (1, 2, 5, 100)] == [EVERY_S, 2.0, 5.0, SLOWEST_S]
    note_cores(sweep_id, readings(0.2), 2.0)
    assert pace_s(sweep_id, 2) == 2.0, "the next run starts with loading"


def test_viewers_are_counted_once_and_leave() -> None:
    before = count_viewers("one", EVERY_S)
    assert count_viewers("one", EVERY_S) == before
    assert count_viewers("two", EVERY_S) == before + 1
    count_viewers("two", -EVERY_S)  # due again in the past: it has missed its drawings
    assert count_viewers("one", EVERY_S) == before


def test_the_page_says_only_what_is_unusual() -> None:
    assert say_pace(EVERY_S) == ""
    assert "every 5 s" in say_pace(5.0)
