"""The view of search strategies on the Model search page: empty, failed, one run, and a comparison."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from drawn_page import assert_replayed, draw
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from engine.people import annotate
from ui.frame import PAGES, safe
from ui.strategies_charts import TITLES

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
    """Four sweeps: a failed search, one run, two settings, and all strategies on two stores."""
    lab = Lab.at(tmp_path_factory.mktemp("searched"))

    def sweep(expect: int = 0, **content: Any) -> None:
        lab.json("sweep", lab.sweep_file(experiment="search", **content), "--wait", expect=expect)

    sweep(1, name="<b>failed</b>", grid={"budget_bytes": [10]}, fixed=SMALL)
    sweep(name="one run", grid={"strategy": ["halving"]}, fixed={**SMALL, "snapshots": "half"})
    others = {name: value for name, value in SMALL.items() if name != "items"}
    sweep(name="settings", grid={"items": [60, 80]}, fixed={**others, "strategy": "halving"})
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


def test_a_search_leads_to_its_own_result(full: dict[str, str], lab: Lab) -> None:
    answer = next(page for page in PAGES if "search" in page.answers)
    page = draw(answer.file, **answer.link_to("search", full["one run"]))
    assert not page.warning and list(work_of(page)["Strategy"]) == ["halving"]
    out = lab.home.root.parent / "search.html"
    assert lab.json("export", full["all"], "--format", "html", "--out", str(out))["charts"] >= 3
    assert full["all"] in out.read_text()


def work_of(page: AppTest) -> Any:
    return next(table.value for table in page.dataframe if "Block-item pairs" in table.value.columns)


def test_an_archived_search_is_offered_only_where_the_link_asks_for_it(full: dict[str, str], lab: Lab) -> None:
    annotate(lab.home, [full["one run"]], "archive")
    assert list(work_of(view(searches=full["one run"]))["Strategy"]) == ["halving"]
    options = view().multiselect[0].options
    assert len(options) == 3 and not any("one run" in option for option in options)


def test_a_link_to_a_setting_stays_when_there_are_others(full: dict[str, str], lab: Lab) -> None:
    alone = view(searches=full["settings"])
    setting = alone.query_params["setting"]
    beside = view(searches=",".join([full["all"], full["settings"]]), setting=setting)
    assert beside.query_params["setting"] == setting
    assert list(work_of(alone)["Block-item pairs"]) == list(work_of(beside)["Block-item pairs"])


def test_what_a_search_found_is_told(full: dict[str, str], lab: Lab) -> None:
    """Against the files that the runs left."""
    page = view(searches=full["all"], store="half")
    best = {}
    for run in lab.json("runs", "--sweep", full["all"])["runs"]:
        if run["params"]["snapshots"] == "half":
            file = lab.home.sweep(full["all"]).runs / f"{run['run_id']}.files" / "search.json"
            best[run["params"]["strategy"]] = [r["model"] for r in json.loads(file.read_text())["ranking"]]
    work = work_of(page).set_index("Strategy")
    ranks = next(table.value for table in page.dataframe if "Rank (exhaustive)" in table.value.columns)
    assert list(ranks["Model"])[:5] == best["exhaustive"][:5]
    for name, title in TITLES.items():
        assert work["Best model"][title] == best[name][0]
        assert work["Its rank under exhaustive"][title] == str(1 + best["exhaustive"].index(best[name][0]))
        assert list(ranks[f"Rank ({title})"]) == [str(1 + best[name].index(model)) for model in ranks["Model"]]
        priced, _, measured = work["Inference, priced / measured"][title].partition(" / ")
        assert priced[0].isdecimal() and measured[0].isdecimal()
    assert f"Exhaustive search ranks **{safe(best['exhaustive'][0])}** first of 6 models." in words(page)
    assert "whether that finds the same one is not known" in words(view(searches=full["one run"]))


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
