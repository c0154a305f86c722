"""The SQL page in a real browser: an answer, its chart, its link in a second one; the app stays quick beside a query
that runs for ever. And a bundle goes out and comes back."""

from __future__ import annotations

import re
import time
from pathlib import Path

from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import settled
from playwright.sync_api import expect

from engine.bundles import save_bundle
from engine.environment import environment_id_of
from engine.home import Home
from tests.store.journal_builder import FACTS, Script
from tests.store.small_lab import write_sweep

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3"
MANY = "SELECT range AS i FROM range(10000000)"


def test_a_query_its_chart_and_its_link(app: App, visit: Visit) -> None:
    write_sweep(app.lab.home)
    page = visit()
    page.goto(f"{app.url}/SQL")
    settled(page, "SQL")
    expect(page.get_by_text("the store as of")).to_have_count(0)  # nothing runs before somebody asks
    page.get_by_role("button", name="Batches of the latest run").click()
    expect(page.get_by_text("120 rows · ")).to_be_visible()
    page.get_by_role("radio", name="Chart").click()
    expect(page.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg").first).to_be_visible()
    settled(page, "SQL")
    other = visit()
    other.goto(page.url)
    expect(other.get_by_text("120 rows · ")).to_be_visible()
    expect(other.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg").first).to_be_visible()
    settled(other, "SQL")
    for sql, said in (("SELECT * FROM read_text('/etc/passwd')", "no files"), ("INSTALL httpfs", "LOAD is refused"),
                      ("ATTACH 'x.duckdb'", "ATTACH is refused"), ("DELETE FROM runs", "DELETE is refused"),
                      (MANY, re.compile(r"10,000,000 rows, the first 10,000 of them here: 9,990,000 are cut off|"
                                        "more than .* rows, the first 10,000 of them here"))):
        other.get_by_role("textbox", name="Query").fill(sql)
        other.keyboard.press("Control+Enter")
        expect(other.get_by_role("main").get_by_text(said).first).to_be_visible()
        settled(other, "SQL")


def test_pages_answer_while_a_query_runs_for_ever(app: App, visit: Visit) -> None:
    """Somebody else goes from page to page until the query is ended."""
    heavy, light = visit(), visit()
    for page in (heavy, light):
        page.goto(f"{app.url}/SQL")
        settled(page, "SQL")
    heavy.get_by_role("textbox", name="Query").fill(ENDLESS)
    heavy.keyboard.press("Control+Enter")
    expect(heavy.get_by_text("The query runs in a process of its own")).to_be_visible()
    drawn, began = 0, time.monotonic()
    while heavy.get_by_text("The query runs in a process of its own").is_visible():
        title = ("Runs", "SQL")[drawn % 2]
        light.get_by_test_id("stSidebar").get_by_role("link", name=title, exact=True).click()
        settled(light, title)
        drawn += 1
    print(f"{drawn} pages were drawn in {time.monotonic() - began:.1f} s beside an endless query")
    assert drawn >= 2
    expect(heavy.get_by_text("This ran longer than 10 seconds and was ended")).to_be_visible()


def test_a_bundle_goes_out_and_comes_back(app: App, visit: Visit, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    script = Script(elsewhere, "20260302-090000-aaaa").begin(environment_id=environment_id_of(FACTS))
    sweep_id = script.sweep_id
    script.run(0)
    script.end().write()
    out = tmp_path / "theirs.zip"
    save_bundle(elsewhere, elsewhere.sweep(sweep_id), out)
    page = visit()
    page.goto(f"{app.url}/Runs")
    settled(page, "Runs")
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator("input[type=file]").set_input_files(out)
    page.get_by_role("button", name="Import this bundle").click()
    expect(page.get_by_text("1 run imported, measured on bench")).to_be_visible()
    page.goto(f"{app.url}/Live?sweep={sweep_id}")
    expect(page.get_by_text("it came in a bundle")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Bundle").click()
    assert download.value.path().read_bytes() == out.read_bytes()
