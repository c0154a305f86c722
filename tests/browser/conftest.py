"""A real Chromium against real apps. When a test fails, what every window showed is kept beside the server's log."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser.driven_app import PATIENCE_S, App
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
FAILURES = Path(__file__).parent / "failures"
Visit = Callable[[], Page]

_windows: list[BrowserContext] = []
_apps: list[App] = []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each file: playwright keeps an event loop running that other tests must not meet."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine: install the package chromium, or run `make test`")
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Each call is another person: a browser context of its own, nothing remembered. JavaScript errors fail a test."""
    opened: list[BrowserContext] = []
    errors: list[str] = []

    def visit() -> Page:
        context = browser.new_context(viewport={"width": 1440, "height": 1000})
        context.set_default_timeout(PATIENCE_S * 1000)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        opened.append(context)
        _windows.append(context)
        return context.new_page()

    yield visit
    for context in opened:
        _windows.remove(context)
        context.close()
    assert not errors, "JavaScript errors in the page"


@pytest.fixture(scope="module")
def start_app(tmp_path_factory: pytest.TempPathFactory, image_cache: Path) -> Iterator[Callable[..., App]]:
    """Apps for the tests of one file, each on a lab of its own with the session's generated images."""
    started: list[App] = []

    def start(**environment: str) -> App:
        app = App(tmp_path_factory.mktemp("app"), image_cache, **environment)
        started.append(app)
        _apps.append(app)
        return app.start()

    yield start
    for app in started:
        _apps.remove(app)
        app.close()


@pytest.fixture(scope="module")
def app(start_app: Callable[..., App]) -> App:
    return start_app()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.failed and report.when != "teardown":
        folder = FAILURES / f"{time.strftime('%m%d-%H%M%S')}-{re.sub(r'[^A-Za-z0-9]+', '-', item.name)[:80]}"
        report.sections.append(("What the browser showed", keep_evidence(folder)))
    return report


def keep_evidence(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for number, page in enumerate([page for context in _windows for page in context.pages]):
        try:
            (folder / f"{number}.txt").write_text(f"{page.url}\n\n{page.inner_text('body', timeout=5000)}")
            # The app scrolls inside itself: the window is made as tall as its content for a full picture.
            tall = page.evaluate("Math.max(...[...document.querySelectorAll('[data-testid=stMain]')]"
                                 ".map(main => main.scrollHeight), 1000)")
            page.set_viewport_size({"width": 1440, "height": min(int(tall) + 20, 8000)})
            page.screenshot(path=folder / f"{number}.png", timeout=20_000)
        except Error as problem:
            said.append(f"window {number} ({page.url}) could not be kept: {problem}")
    for number, app in enumerate(_apps):
        for log in sorted(app.folder.glob("app-*.log")):
            shutil.copy(log, folder / f"server-{number}-{log.name}")
        for log in app.lab.home.sweeps.glob("*/sweep.log"):
            shutil.copy(log, folder / f"server-{number}-{log.parent.name}.log")
    return "\n".join([f"Pictures, texts and the server's log: {folder}", *said])
