"""The README's pictures, of the real pages on a lab that is measured for them: `make pictures`, some minutes.

The lab is made in a folder that is thrown away and filled by the one-minute tour; nothing in a picture is made up.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from engine.boards import add_item, create_board  # noqa: E402
from engine.home import Home  # noqa: E402
from engine.launch import cancel, wait_until_ended  # noqa: E402
from engine.sweep_state import process_alive, read_state  # noqa: E402

PICTURES = PROJECT / "docs" / "pictures"
WIDTH, HEIGHT = 1440, 900
COLOURS = 256
"""Enough for charts and text; a picture stays below 200 kB."""
PATIENCE_MS = 1_200_000
PHASES = """\
SELECT 'batch ' || (b.asked->>'$') || ', ' || (w.asked->>'$') || ' workers' AS cell, p.phase, avg(p.total_s) AS mean_s
FROM phase_summaries p
JOIN parameters b ON b.run_id = p.run_id AND b.name = 'batch_size'
JOIN parameters w ON w.run_id = p.run_id AND w.name = 'workers'
GROUP BY ALL ORDER BY cell, phase"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "lab")
        with serve(home) as url, browse() as browser:
            page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light").new_page()
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            take_all(page, url, home)


def take_all(page: Page, url: str, home: Home) -> None:
    page.goto(url)
    page.get_by_role("button", name="Start the one-minute tour").click()
    progress = page.get_by_role("main").get_by_text(re.compile(r"\d+ of \d+ runs done"))
    expect(progress).to_have_text(re.compile(r"\b([4-9]|\d\d+) of \d+ runs done"))
    expect(page.get_by_text("Measured now")).to_be_visible()
    expect(page.get_by_text("No batch yet")).to_have_count(0)
    keep(page, "live")
    expect(progress).to_have_text(re.compile(r"finished\b"))
    (sweep_id,) = home.sweep_ids()

    open_page(page, f"{url}/Runs?sweep={sweep_id}", "Runs")
    keep(page, "runs")
    open_page(page, f"{url}/Batch_and_workers?sweeps={sweep_id}", "Batch & workers")
    keep(page, "batch-and-workers", HEIGHT + 320)
    runs = read_state(home.sweep(sweep_id)).runs.values()
    cells = list(dict.fromkeys(run.run_id.rpartition("-")[0] for run in runs if run.asked["batch_size"] == 32))
    open_page(page, f"{url}/Compare?items={','.join(cells)}", "Compare")
    keep(page, "compare")
    board = create_board(home, "Group meeting")
    add_item(home, board, "Live", "cells", {"sweep": sweep_id}, "From the one-minute tour.")
    add_item(home, board, "Compare", "compare_phases", {"items": ",".join(cells)})
    page.goto(f"{url}/Present?board={board}")
    chart = page.locator("[data-testid=stVegaLiteChart]")
    missing = page.get_by_text("There is no board with this id")  # until the app has read what was written just now
    expect(chart.or_(missing).first).to_be_visible()
    while missing.is_visible():
        page.reload()
        expect(chart.or_(missing).first).to_be_visible()
    keep(page, "present")
    open_page(page, f"{url}/SQL?q={quote(PHASES)}&as=Chart&x=cell&y=mean_s&colour=phase&mark=bars", "SQL")
    expect(page.get_by_text("the store as of")).to_be_visible()
    keep(page, "sql", HEIGHT + 300)


def open_page(page: Page, link: str, title: str) -> None:
    page.goto(link)
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()


def keep(page: Page, name: str, height: int = HEIGHT) -> None:
    """When the page is at rest: scripts are done, charts are drawn."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    if name != "live":
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.wait_for_timeout(500 if name == "live" else 2_000)  # charts fade in; a live one is soon another
    PICTURES.mkdir(exist_ok=True)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    print(f"docs/pictures/{name}.png: {(PICTURES / f'{name}.png').stat().st_size:,} bytes")


@contextmanager
def serve(home: Home) -> Iterator[str]:
    """The app on this lab, until the pictures are taken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PHASELAB_HOME": str(home.root)}
    environment.pop("PHASELAB_VIEWER", None)
    app = subprocess.Popen([sys.executable, "lab.py", "app", "--port", str(port)], cwd=PROJECT, env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while not answers(url):
            assert app.poll() is None, "the app ended: start `python lab.py app` to see why"
            time.sleep(0.2)
        yield url
    finally:
        for folder in map(home.sweep, home.sweep_ids()):
            if process_alive(folder):
                cancel(home, folder.sweep_id)
                wait_until_ended(folder, 60)
        app.terminate()
        app.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def browse() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("there is no Chromium on this machine: install the package chromium")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])


if __name__ == "__main__":
    main()
