"""The first minute of a newcomer: start the tour, watch it, open a run, send its link to somebody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import HomePage, LivePage, RunsPage
from playwright.sync_api import expect

from engine.home import PROJECT
from engine.spec import read_spec


@pytest.mark.timeout(600)  # the real tour, which takes as long as the machine lets it
def test_from_an_empty_lab_to_a_run_that_others_can_open(start_app: Callable[..., App], visit: Visit) -> None:
    # One thread for torch: on a machine with other work, its threads would mostly wait for each other.
    app, page = start_app(OMP_NUM_THREADS="1"), visit()
    planned = read_spec(PROJECT / "presets" / "tour.yaml").number_of_runs
    home = HomePage(page).open(app.url)
    assert app.sweeps() == []
    home.tour.click()

    live = LivePage(page).arrived()
    assert [folder.sweep_id for folder in app.sweeps()] == [live.sweep_id]
    first = live.wait_until_done(0)
    expect(live.charts.first).to_be_visible()
    assert live.wait_until_done(first) > first
    live.finished(planned)
    sweep_id = live.sweep_id

    live.runs.click()
    runs = RunsPage(page)
    runs.shows(planned)
    runs.open_row(0)
    run_id = runs.opened()
    assert run_id.startswith(sweep_id)
    numbers, link = runs.numbers(), page.url
    assert len(numbers) > 4, numbers

    def seen_by_another() -> list[str]:
        other = RunsPage(visit())
        other.page.goto(link)
        assert other.opened() == run_id
        return other.numbers()

    assert seen_by_another() == numbers
    app.end()
    app.start()
    assert seen_by_another() == numbers
