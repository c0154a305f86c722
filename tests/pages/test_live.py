"""The Live page with two real sweeps in line: the queue is paused, reordered and cancelled from the page."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from begin import open_keeper
from engine.queue import read_queue
from engine.sweep_state import process_alive
from tests.store.journal_builder import Script
from ui.pace import SLOWEST_S, count_viewers, note_cores

LIVE = "pages/Live.py"


def launch(lab: Lab, name: str) -> str:
    file = lab.sweep_file(experiment="misbehave", name=name, grid={"seed": [1, 2, 3]},
                          fixed={"batches": 2000, "batch_s": 0.1})
    return str(lab.json("sweep", file)["sweep_id"])


def wait_for(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until, f"did not come about: {what}"
        time.sleep(0.1)


def press(page: AppTest, label: str, key: str = "") -> AppTest:
    button = next(b for b in page.button if b.label == label and (not key or b.key == key))
    return no_exception(button.click().run())


def line(lab: Lab) -> list[str]:
    return [entry.sweep_id for entry in read_queue(lab.home).entries]


def test_the_queue_is_reordered_paused_and_cancelled_from_the_page(lab: Lab) -> None:
    first, second, third = (launch(lab, name) for name in ("first", "second", "third"))
    wait_for(lambda: any(entry.state == "measuring" for entry in read_queue(lab.home).entries), "one measures")
    page = draw(LIVE, sweep=third)
    assert any("waits in the queue, 2 ahead of it" in bar.text for bar in page.get("progress"))
    press(page, "Earlier", f"queue_Earlier_{third}")
    assert line(lab) == [first, third, second]
    press(page, "Pause the whole queue")
    assert read_queue(lab.home).paused
    press(page, "Continue the queue")
    assert not read_queue(lab.home).paused
    press(page, "Pause", f"queue_Pause_{second}")
    assert [entry.paused for entry in read_queue(lab.home).entries] == [False, False, True]
    press(page, "Cancel", f"queue_Cancel_{second}")
    wait_for(lambda: line(lab) == [first, third], "the cancelled one has left the line")
    press(draw(LIVE, sweep=first), "Cancel", "")
    wait_for(lambda: not process_alive(lab.home.sweep(first)), "the first has ended")
    open_keeper().catch_up()
    page = draw(LIVE, sweep=first)
    assert any(button.label.startswith("Resume") for button in page.button)
    assert any("cancelled" in bar.text for bar in page.get("progress"))


def test_killed_and_cancelled_runs_are_not_done(lab: Lab) -> None:
    script = Script(lab.home).begin(planned_runs=4)
    for cell, status in enumerate(["ok", "failed", "killed", "cancelled"]):
        script.run(cell, status=status)
    sweep_id = script.end("cancelled").write().sweep_id
    page = draw(LIVE, sweep=sweep_id)
    assert any("2 of 4 runs done" in bar.text for bar in page.get("progress"))


def test_to_a_sweep_from_elsewhere_no_run_is_added(lab: Lab) -> None:
    script = Script(lab.home).begin(planned_runs=2)
    script.run(0, status="failed")
    sweep_id = script.end("cancelled").write().sweep_id

    def labels() -> list[str]:
        return [button.label for button in draw(LIVE, sweep=sweep_id).button]

    assert any(label.startswith(("Resume", "Run failed")) for label in labels())
    lab.home.sweep(sweep_id).bundle.touch()
    assert not any(label.startswith(("Resume", "Run failed")) for label in labels())


def test_an_experiment_without_batches_shows_its_metrics(lab: Lab) -> None:
    script = Script(lab.home, experiment="max_batch").begin(planned_runs=1)
    script.run(0, batches=0, metrics={"max_batch_size": 210.0})
    sweep_id = script.end().write().sweep_id
    page = draw(LIVE, sweep=sweep_id)
    assert list(page.dataframe[0].value["max batch size"]) == ["210"]


def test_a_viewer_sees_the_sweep_and_cannot_touch_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id = launch(lab, "only")
    wait_for(lambda: line(lab) == [sweep_id], "it is in line")
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    page = draw(LIVE, sweep=sweep_id)
    labels = {button.label: button.disabled for button in page.button}
    assert labels["Cancel"] and labels["Pause"]


def test_a_run_that_needs_every_core_is_drawn_more_seldom_for_many(lab: Lab) -> None:
    sweep_id = launch(lab, "watched")
    wait_for(lambda: any(entry.state == "measuring" for entry in read_queue(lab.home).entries), "it measures")
    open_keeper().catch_up()
    for number in range(10):
        count_viewers(f"somebody {number}", SLOWEST_S)

    def drawn_every_5_s() -> bool:
        return any("drawn every 5 s" in caption.value for caption in draw(LIVE, sweep=sweep_id).caption)

    assert not drawn_every_5_s()
    note_cores(sweep_id, [{"metric": "run_cpu_cores", "value": 1e6}], 2.0)
    assert drawn_every_5_s()
    press(draw(LIVE, sweep=sweep_id), "Cancel")
    wait_for(lambda: not line(lab) and not process_alive(lab.home.sweep(sweep_id)), "it has ended")
    open_keeper().catch_up()
    assert not drawn_every_5_s()
