"""The app's pages as a person finds their parts: by role and visible name, each named here and nowhere else."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

PROGRESS = re.compile(r"(\d+) of (\d+) runs done")


def settled(page: Page, title: str) -> None:
    """The page with this title is drawn to its end and its script is at rest."""
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
    application = page.get_by_test_id("stApp")
    expect(application).to_have_attribute("data-test-connection-state", "CONNECTED")
    expect(application).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.get_by_test_id("stException")).to_have_count(0)


def asked_for(page: Page, name: str) -> str:
    """What the link of this window says about `name`, or nothing."""
    return parse_qs(urlsplit(page.url).query).get(name, [""])[0]


class HomePage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.tour = page.get_by_role("button", name="Start the one-minute tour")

    def open(self, url: str) -> HomePage:
        self.page.goto(url)
        settled(self.page, "Home")
        return self


class LaunchPage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.launch = page.get_by_role("main").get_by_role("button", name="Launch", exact=True)
        # The first: while a form is filled anew, the old field is there for a moment, behind the new one.
        self.name = page.get_by_role("textbox", name="Name", exact=True).first
        self.data = page.get_by_role("combobox", name="Images from")
        self.alerts = page.get_by_role("alert")

    def open(self, url: str, experiment: str) -> LaunchPage:
        self.page.goto(f"{url}/Launch?experiment={experiment}")
        settled(self.page, "Launch")
        expect(self.page.get_by_role("radio", name=experiment)).to_be_checked()
        return self

    def load_yaml(self, text: str) -> None:
        self.page.get_by_role("button", name="Load YAML").click()
        area = self.page.get_by_role("textbox", name="A sweep as YAML")
        area.fill(text)
        self.page.get_by_role("button", name="Fill the form", exact=True).click()

    def fill(self, **sweep: Any) -> None:
        """Fill the form with a sweep; JSON is YAML. Its name tells when the form has taken it."""
        self.load_yaml(json.dumps(sweep))
        expect(self.name).to_have_value(sweep["name"])
        self.page.keyboard.press("Escape")
        settled(self.page, "Launch")
        expect(self.launch).to_be_enabled()


class LivePage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.progress = page.get_by_role("main").get_by_text(PROGRESS)
        self.charts = page.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg")
        self.cancel = page.get_by_role("button", name="Cancel", exact=True)
        self.runs = page.get_by_role("main").get_by_role("link", name="Its runs")

    def open(self, url: str, sweep_id: str) -> LivePage:
        self.page.goto(f"{url}/Live?sweep={sweep_id}")
        return self.arrived()

    def arrived(self) -> LivePage:
        """The app itself led here, with the sweep in the link."""
        expect(self.page.get_by_role("heading", name="Live", exact=True, level=1)).to_be_visible()
        expect(self.page).to_have_url(re.compile(r"/Live\?.*sweep=[\w-]+"))
        expect(self.progress).to_be_visible()
        return self

    @property
    def sweep_id(self) -> str:
        return asked_for(self.page, "sweep")

    def done(self) -> int:
        found = PROGRESS.search(self.progress.inner_text())
        assert found
        return int(found[1])

    def wait_until_done(self, more_than: int) -> int:
        """Until the page itself shows more runs done than this; returns how many."""
        self.page.wait_for_function(
            """more => [...document.querySelectorAll('[data-testid=stMain] p')].some(p => {
                const found = p.textContent.match(/(\\d+) of \\d+ runs done/); return found && +found[1] > more })""",
            arg=more_than)
        return self.done()

    def finished(self, runs: int) -> None:
        """Patience is for each run, not for all of them."""
        done = self.done()
        while done < runs:
            done = self.wait_until_done(done)
        expect(self.progress).to_have_text(re.compile(rf"finished\b.*\b{runs} of {runs} runs done"))


class RunsPage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.table = page.get_by_test_id("stDataFrame").first

    def shows(self, runs: int) -> None:
        settled(self.page, "Runs")
        expect(self.page.get_by_text(re.compile(rf"^{runs} runs?\b"))).to_be_visible()

    def cells(self) -> Locator:
        """The table is a picture; inside it lies the table that screen readers get."""
        return self.table.locator("canvas table tbody tr")

    def tick_row(self, number: int) -> None:
        """A click on the box at the left of a row: rows and the heading are 35 pixels high."""
        expect(self.table.locator("canvas").first).to_be_visible()
        # On the table and not on its canvas, which lies beneath the part that scrolls.
        self.table.click(position={"x": 16, "y": 35 + 35 * number + 17})

    def open_row(self, number: int) -> None:
        self.tick_row(number)
        self.page.get_by_role("button", name="Open this run").click()

    def opened(self) -> str:
        """The run that the link names, with its heading drawn."""
        expect(self.page).to_have_url(re.compile(r"[?&]run=[\w-]+"))
        run_id = asked_for(self.page, "run")
        settled(self.page, "Runs")
        expect(self.page.get_by_test_id("stMain").get_by_text(run_id, exact=True)).to_be_visible()
        return run_id

    def numbers(self) -> list[str]:
        """Heading, outcome and every number in a box, as they are read on the page of one run."""
        boxes = self.page.get_by_test_id("stMetric")
        expect(boxes.first).to_be_visible()
        expect(self.page.get_by_role("tab").first).to_be_visible()  # drawn after the boxes
        return [*self.page.get_by_role("heading", level=3).all_inner_texts(),
                *self.page.get_by_text(re.compile(r"· took ")).all_inner_texts(), *boxes.all_inner_texts()]
