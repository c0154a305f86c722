"""Deleting in a real browser: it asks, the page stays whole, and every delete can be undone, again and again."""

from __future__ import annotations

from browser.conftest import Visit
from browser.driven_app import App, wait_for
from browser.windows import RunsPage, settled
from playwright.sync_api import expect

from tests.store.small_lab import write_sweep


def test_deletes_and_undos_in_a_row_leave_the_page_whole(app: App, visit: Visit) -> None:
    sweep_id = write_sweep(app.lab.home)
    app.end()
    app.start()  # reads every journal anew: this one was not written by a sweep in line
    page = visit()
    runs = RunsPage(page)
    page.goto(f"{app.url}/Runs?sweep={sweep_id}")
    runs.shows(3)
    for _ in range(4):
        runs.tick_row(0)
        expect(page.get_by_role("button", name="Open this run")).to_be_visible()  # the bar is that of the ticked run
        settled(page, "Runs")
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Delete 1 run").click()
        runs.shows(2)
        expect(page.get_by_role("dialog")).to_have_count(0)
        settled(page, "Runs")
        page.get_by_role("button", name="Undo").click()
        runs.shows(3)
        settled(page, "Runs")
    wait_for(lambda: len(list(app.lab.home.people.glob("*.jsonl"))) == 8, "every act is journaled")
