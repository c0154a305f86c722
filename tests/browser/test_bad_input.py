"""What people get wrong in the form, or try: one sentence on the page, and nothing has been started."""

from __future__ import annotations

import json
import re

import pytest
from browser.conftest import Visit
from browser.driven_app import App
from browser.windows import LaunchPage, LivePage, RunsPage, settled
from playwright.sync_api import expect

ATTACK = "<script>alert('run by the page')</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) "


@pytest.fixture(autouse=True)
def _nothing_is_started(app: App, request: pytest.FixtureRequest) -> object:
    before = app.sweeps()
    yield
    if "may_start" not in request.fixturenames:
        assert app.sweeps() == before


@pytest.fixture
def may_start() -> None:
    """Asked for by the test that launches on purpose."""


def test_an_unknown_key_in_yaml_is_named(app: App, visit: Visit) -> None:
    launch = LaunchPage(visit()).open(app.url, "misbehave")
    launch.load_yaml("experiment: misbehave\ngrid: {seed: [1]}\nrepeets: 3\n")
    alert = launch.alerts.filter(has_text="repeets")
    expect(alert).to_have_count(1)
    assert re.search(r"did you mean repeats|unknown|allowed", alert.inner_text()), alert.inner_text()
    assert "\n" not in alert.inner_text().strip()


@pytest.mark.parametrize("text", [
    "[1, 2", "- a\n- b", "experiment: nonsense\ngrid: {seed: [1]}", "experiment: !!python/name:os.system",
    "experiment: misbehave\ngrid: {batch_size: [0]}"])
def test_wrong_yaml_is_explained(app: App, visit: Visit, text: str) -> None:
    launch = LaunchPage(visit()).open(app.url, "misbehave")
    before = launch.alerts.count()  # the broken experiment of the tests is one
    launch.load_yaml(text)
    expect(launch.alerts).to_have_count(before + 1)
    settled(launch.page, "Launch")
    expect(launch.page.get_by_text("Traceback")).to_have_count(0)


def test_a_data_folder_that_is_not_there_is_explained_before_anything_starts(app: App, visit: Visit) -> None:
    launch = LaunchPage(visit()).open(app.url, "inference")
    launch.data.fill(str(app.lab.home.root / "data" / "nothing here"))
    launch.data.press("Enter")
    launch.page.keyboard.press("Escape")  # the list of options hides the rest of the page from readers
    expect(launch.alerts.filter(has_text="nothing here")).to_have_count(1)
    expect(launch.launch).to_have_count(0)


def test_a_name_with_a_script_in_it_stays_text(app: App, visit: Visit, may_start: None) -> None:
    page = visit()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    launch = LaunchPage(page).open(app.url, "misbehave")
    name = ATTACK + "x" * 10_000
    launch.load_yaml(json.dumps({"experiment": "misbehave", "name": name, "grid": {"seed": [1]}}))
    expect(launch.alerts.filter(has_text="name")).to_have_count(1)  # too long: refused, with a sentence
    assert app.sweeps() == []
    # As long as it may be, it is launched, and shown as text wherever it appears.
    page.keyboard.press("Escape")
    launch.fill(experiment="misbehave", name=ATTACK, notes=ATTACK, tags=[ATTACK], repeats=1, grid={"seed": [1]})
    launch.launch.click()
    live = LivePage(page).arrived()
    live.finished(1)
    live.runs.click()
    runs = RunsPage(page)
    runs.shows(1)
    runs.open_row(0)
    runs.opened()
    page.goto(app.url)
    settled(page, "Home")
    expect(page.get_by_role("main").get_by_text("<script>alert('run by the page')").first).to_be_visible()
    assert dialogs == []
    for element in ("script:has-text('run by the page')", "img[src='x']", "a[href^='javascript']"):
        expect(page.locator(element)).to_have_count(0)
