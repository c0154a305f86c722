"""Runs are ticked, marks are clicked, and Compare says which is slower; its link is the same view for somebody else."""

from __future__ import annotations

import re

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import RunsPage, asked_for, settled
from playwright.sync_api import Page, expect

from tests.store.compared_lab import NEW, OLD, write_upgrade

BARS = "[data-testid=stVegaLiteChart] svg [aria-roledescription=bar]"


@pytest.fixture(scope="module")
def measured(app: App) -> App:
    """Two sweeps of two cells and three repeats each; torch was upgraded between them, and all became slower."""
    write_upgrade(app.lab.home)
    return app


def arrived(page: Page) -> None:
    expect(page).to_have_url(re.compile(r"/Compare\?.*items="))
    settled(page, "Compare")


def verdict(page: Page) -> str:
    """What the page says first: each verdict and the baseline's figure."""
    said = page.get_by_test_id("stMain").get_by_text(re.compile(r"Baseline [A-L], "))
    expect(said).to_be_visible()
    return said.inner_text()


def test_ticked_runs_are_compared_and_the_link_shows_the_same(measured: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{measured.url}/Runs")
    runs = RunsPage(page)
    runs.shows(12)
    settled(page, "Runs")
    runs.tick_row(-1)  # the box in the heading: all of them
    page.get_by_role("link", name="Compare 12 chosen").click()
    arrived(page)
    assert "B" in verdict(page) and len(asked_for(page, "items").split(",")) == 12

    page.go_back()  # one press leaves it
    settled(page, "Runs")
    page.go_forward()
    arrived(page)

    before = verdict(page)
    box = page.get_by_role("combobox", name=re.compile("Baseline"))
    box.click()
    page.get_by_role("option", name=re.compile(r"^C · ")).click()
    expect(page).to_have_url(re.compile(r"[?&]baseline="))
    settled(page, "Compare")
    expect(page.get_by_text(re.compile(r"Baseline C, "))).to_be_visible()
    pinned = verdict(page)
    assert pinned != before and asked_for(page, "baseline") in asked_for(page, "items")

    other = visit()
    other.goto(page.url)
    settled(other, "Compare")
    assert verdict(other) == pinned
    assert other.url == page.url
    expect(other.get_by_text("Not comparable without care.")).to_be_visible()  # torch 2.15.0 and 2.16.0


def test_two_sweeps_are_compared_as_wholes(measured: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{measured.url}/Runs?sweep={OLD}")
    settled(page, "Runs")
    page.get_by_role("main").get_by_role("link", name="Compare", exact=True).click()
    arrived(page)
    box = page.get_by_role("combobox", name=re.compile("Take away or add"))
    option = page.get_by_role("option", name=re.compile("^after"))
    box.click()
    expect(option).to_be_visible()
    option.click()
    expect(page).to_have_url(re.compile(rf"items=.*{NEW}"))
    expect(page.get_by_text(re.compile(r"is slower than before: 1\.50 times"))).to_be_visible()


def test_marks_of_a_chart_lead_to_compare(measured: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{measured.url}/Batch_and_workers?sweeps={OLD}&family=One+model,+both+vary")
    settled(page, "Batch & workers")
    # Bars come first, then the thin ones that are whiskers.
    expect(page.locator(BARS).first).to_be_visible()
    page.locator(BARS).nth(0).click(position={"x": 5, "y": 3})
    expect(page.get_by_role("link", name="Compare it")).to_be_visible()
    page.locator(BARS).nth(1).click(position={"x": 5, "y": 3}, modifiers=["Shift"])
    page.get_by_role("link", name="Compare 2 chosen").click()
    arrived(page)
    assert len(asked_for(page, "items").split(",")) == 6
    assert "slower" in verdict(page) and "2.0" in verdict(page)
    page.go_back()
    settled(page, "Batch & workers")


def test_finished_cells_on_live_lead_to_compare(measured: App, visit: Visit) -> None:
    page = visit()
    page.goto(f"{measured.url}/Live?sweep={OLD}")
    expect(page.get_by_role("heading", name="Finished cells")).to_be_visible()
    page.locator(BARS).nth(0).click(position={"x": 5, "y": 3})
    compare = page.get_by_role("link", name="Compare it")
    expect(compare).to_be_visible()
    page.wait_for_timeout(3000)  # the page draws itself again every second
    compare.click()
    arrived(page)
    assert len(asked_for(page, "items").split(",")) == 3
