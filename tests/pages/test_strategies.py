"""The view of search strategies on the Model search page: empty, failed, one run, and a comparison."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from drawn_page import assert_replayed, draw
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

PAGE = "pages/Model_search.py"
SMALL = {"models": 6, "blocks": 8, "channels": 4, "items": 100, "image_size": 4, "threads": 1}


def view(**query: str) -> AppTest:
    return draw(PAGE, view="Strategies", **query)


def words(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.markdown, *page.caption, *page.info))


def links(page: AppTest) -> str:
    return " ".join(link.proto.label for link in page.get("page_link"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sweeps: a failed search, one run, and all strategies on two stores."""
    lab = Lab.at(tmp_path_factory.mktemp("searched"))

    def sweep(expect: int = 0, **content: Any) -> None:
        lab.json("sweep", lab.sweep_file(experiment="search", **content), "--wait", expect=expect)

    sweep(1, name="<b>failed</b>", grid={"budget_bytes": [10]}, fixed=SMALL)
    sweep(name="one run", grid={"strategy": ["halving"]}, fixed={**SMALL, "snapshots": "half"})
    sweep(name="all", grid={"strategy": ["exhaustive", "halving", "shared_prefix", "shared_prefix_halving"],
                            "snapshots": ["quarter", "half"]}, fixed=SMALL, repeats=2)
    return lab.home.root


@pytest.fixture
def full(lab: Lab, searched: Path) -> dict[str, str]:
    """Sweeps by name, in a lab that this test's pages open."""
    shutil.copytree(searched, lab.home.root)
    return {sweep["name"]: sweep["sweep_id"] for sweep in lab.json("sweeps")["sweeps"]}


def test_a_board_shows_what_the_page_shows(full: dict[str, str]) -> None:
    assert len(assert_replayed("Model search", sweeps=full["all"], view="Strategies").figures) >= 3


def test_an_empty_store_names_the_next_step(lab: Lab) -> None:
    page = view()
    assert "Launch the small comparison" in links(page)
    assert "No search has been measured yet" in words(page)


def test_strategies_side_by_side(full: dict[str, str], lab: Lab) -> None:
    page = view(searches=full["all"], store="half")
    said = words(page)
    assert "Fastest against exhaustive. **a quarter differs**: " in said
    assert "6 models have 48 blocks, " in said
    assert "At 50,000 models exhaustive would take" in said
    work = next(table.value for table in page.dataframe if "Block-item pairs" in table.value.columns)
    assert list(work["Strategy"]) == ["exhaustive", "halving", "shared prefix", "shared prefix + halving"]
    assert work["Block-item pairs"][0] == "4,800"
    assert list(work["Block-item pairs"])[2:] == list(work["Lower bound"])[2:]
    few = words(view(searches=full["all"], scale_items="1000"))
    assert "Halving 50,000 models needs 131,073 items" in few


def test_one_run_and_failed_ones_draw(full: dict[str, str], lab: Lab) -> None:
    assert "there is nothing to compare with" in words(view(searches=full["one run"]))
    assert "No run of these sweeps can be compared" in words(view(searches=full["<b>failed</b>"]))
    # Two sweeps with the same setting are one comparison: the single run joins the others of its kind.
    both = view(searches=",".join(full.values()), store="half")
    work = next(table.value for table in both.dataframe if "Block-item pairs" in table.value.columns)
    assert [runs.partition(",")[0] for runs in work["Runs"]] == ["2", "3", "2", "2"]


def test_a_file_that_is_gone_or_wrong_costs_only_the_tree(full: dict[str, str], lab: Lab) -> None:
    for number, path in enumerate(lab.home.sweep(full["all"]).runs.glob("*.files/search.json")):
        path.unlink() if number % 2 else path.write_text('{"parts": ')
    said = words(view(searches=full["all"]))
    assert "The plan's tree is not there" in said
    assert "Fastest against exhaustive" in said


def test_tampered_links_draw(full: dict[str, str], lab: Lab) -> None:
    for value in ("nonsense", "9" * 3000, "'; DROP TABLE runs; --"):
        view(searches=value, store=value, setting=value, scale_items=value)
