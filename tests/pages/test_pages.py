"""Every page draws: on an empty lab, after real runs with a failed one among them, and with a tampered link."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from drawn_page import draw
from driven_lab import Lab

from engine.home import PROJECT
from ui.frame import PAGES, Page


def sweep_once(folder: Path, endings: list[str]) -> Path:
    """A lab with one sweep, measured once for all pages."""
    lab = Lab.at(folder)
    lab.json("sweep", lab.sweep_file(experiment="misbehave", name="<script>alert(1)</script> *bold*",
                                     grid={"how": endings}), "--wait", expect=(0, 1))
    return lab.home.root


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep_once(tmp_path_factory.mktemp("measured"), ["well", "raise"])


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep_once(tmp_path_factory.mktemp("failed"), ["raise"])


@pytest.fixture
def home(lab: Lab, request: pytest.FixtureRequest) -> Lab:
    if (filled := getattr(request, "param", "empty")) != "empty":
        shutil.copytree(request.getfixturevalue(filled), lab.home.root)
    return lab


@pytest.mark.parametrize("home", ["empty", "measured", "failed"], indirect=True)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_draws(home: Lab, page: Page) -> None:
    assert draw(page.file).title[0].value == page.title


@pytest.mark.parametrize("home", ["measured"], indirect=True)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_tampered_links_draw_all_the_same(home: Lab, page: Page) -> None:
    for value in ("nonsense", "9" * 5000, "'; DROP TABLE runs; --", "../../etc/passwd"):
        draw(page.file, sweep=value, run=value, status=value, experiment=value, view=value, sweeps=value, top=value)


@pytest.mark.parametrize("home", ["measured"], indirect=True)
def test_a_run_opens_by_its_link(home: Lab) -> None:
    run = next(run for run in home.json("runs")["runs"] if run["status"] == "ok")
    page = draw("pages/Runs.py", run=run["run_id"])
    assert any(run["run_id"] in text.value for text in page.markdown)


@pytest.mark.parametrize("home", ["measured"], indirect=True)
def test_a_link_to_a_sweep_that_is_gone_says_so(home: Lab) -> None:
    sweep_id = home.json("sweeps")["sweeps"][0]["sweep_id"]
    for asked, said in ((sweep_id, False), ("20200101-000000-aaaa", True)):
        warnings = [box.value for box in draw("pages/Live.py", sweep=asked).warning]
        assert any("what the link names is not here" in warning for warning in warnings) is said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_no_text_of_the_source_is_drawn(page: Page) -> None:
    """Streamlit draws every text that stands alone in a page's script, but the first."""
    alone = [part for part in ast.parse((PROJECT / page.file).read_text()).body
             if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
    assert len(alone) == 1
