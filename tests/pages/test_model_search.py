"""The Model search page: the published figures, every view on empty and full stores, and choices in the link."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_page import assert_replayed, draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from begin import open_keeper
from store.search import published_pairs
from ui.search_speedup import speed_up_bars, speed_up_frame

PAGE = "pages/Model_search.py"
VIEWS = ("Speed-up", "End to end", "Bottlenecks", "Agreement")


def words(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.markdown, *page.caption))


def test_the_published_pairs_are_there_on_an_empty_store(lab: Lab) -> None:
    page = draw(PAGE)
    assert "Published only" in words(page)
    assert "do not say which start-up they hold" in words(page) and "Whiskers" not in words(page)
    pairs = published_pairs(open_keeper().store.cursor())
    drawn = speed_up_bars(speed_up_frame([], pairs)).to_dict()
    (rows,) = drawn["datasets"].values()
    assert {row["pair"]: round(row["times"], 1) for row in rows} == {
        "resnet50, 1,000 images, published": 20.3, "resnet50, 4,000 images, published": 23.3,
        "vit_l_16, 1,000 images, published": 24.6, "vit_l_16, 4,000 images, published": 24.4}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_draws_on_an_empty_store_and_names_the_next_step(lab: Lab, view: str) -> None:
    page = draw(PAGE, view=view)
    links = [link.proto.label for link in page.get("page_link") if "Launch the small" in link.proto.label]
    assert bool(links) == (view != "End to end")


def test_break_even_of_the_studys_scenarios_and_of_changed_ones(lab: Lab) -> None:
    said = words(draw(PAGE, view="End to end"))
    assert "**22** in S1, **125** in S2" in said
    assert "| S1 | 91.0 s | 4.00 s | 22 models | 55 h 33 min |" in said
    # The first basis that is offered: the published resnet50 with 1,000 images, 26.4 s against 1.3 s.
    assert "**20** in Own" in said
    changed = words(draw(PAGE, view="End to end", search_s="2", s2_runs="5", models="100"))
    assert "**45** in S1, **500** in S2" in changed and "With 100 models" in changed
    grown = words(draw(PAGE, view="End to end", basis="resnet50-4000", images="40000", epochs="20"))
    assert "| Own | 30 min 20 s | 39.0 s | 46 models |" in grown
    assert "this pair has extraction alone" in grown
    (figure,) = assert_replayed("Model search", view="End to end").figures
    assert "this pair has extraction alone" in figure.note, "wherever the figure is taken"


def asked(page: AppTest, name: str) -> str:
    """What the link says: the test has it as a list until the page writes it."""
    value = page.query_params[name]
    return value if isinstance(value, str) else value[0]


def own(page: AppTest) -> str:
    return next(line for line in words(no_exception(page)).splitlines() if line.startswith("| Own"))


def test_another_basis_brings_its_own_images_and_epochs(lab: Lab) -> None:
    """What the page shows is what a fresh visit to its link shows."""
    page = draw(PAGE, view="End to end")
    assert own(page).startswith("| Own | 26.4 s | 1.30 s | 20 models |")
    page.selectbox(key="choose_basis").set_value("resnet50-4000").run()
    assert own(page) == own(draw(PAGE, view="End to end", basis="resnet50-4000"))
    assert own(page).startswith("| Own | 91.0 s | 3.90 s | 23 models |")
    assert "images" not in page.query_params, "nobody asked for a number"


def test_assumptions_are_sliders_in_the_link_and_boxes_for_exact_ones(lab: Lab) -> None:
    page = draw(PAGE, view="End to end", basis="resnet50-4000", images="1234")
    assert page.select_slider(key="images_slider").value == 1234, "no round number, and still there"
    models = page.select_slider(key="models_slider")
    assert (models.options[0], models.options[-1], models.value) == ("1", "100,000", 50_000)
    page.select_slider(key="epochs_slider").set_value(20.0).run()
    page.select_slider(key="models_slider").set_value(300.0).run()
    assert (asked(page, "epochs"), asked(page, "models")) == ("20", "300")
    said = words(no_exception(page))
    assert "With 300 models" in said
    page.toggle(key="exact").set_value(True).run()
    assert words(no_exception(page)) == said
    page.number_input(key="s2_runs_box").set_value(2.75).run()
    assert asked(page, "s2_runs") == "2.75"
    page.number_input(key="s2_runs_box").set_value(2.5).run()
    assert "s2_runs" not in page.query_params, "the study's own again"


def test_the_steps_of_the_comparison_with_shift(lab: Lab) -> None:
    said = words(draw(PAGE, view="End to end"))
    for figures in ("1763 / 101 | 17.46", "55.6 to 83.3 h", "80.8 to 121.2 h", "2.06 to 3.71 ×"):
        assert figures in said


@pytest.mark.parametrize("query", [
    {"view": "nonsense"}, {"sweeps": "no-such-sweep"}, {"view": "End to end", "search_s": "-5", "models": "9" * 400},
    {"view": "End to end", "basis": "<script>", "images": "x"}, {"view": "Bottlenecks", "of": "a,b"},
    {"view": "End to end", "images": "nan", "epochs": "0", "own_runs": "inf", "exact": "true"},
    {"view": "End to end", "images": "1e300", "epochs": "2.6", "s1_runs": "-1", "search": "magic"},
    {"view": "Agreement", "layers": "none", "setting": "0"}])
def test_a_wrong_link_still_draws(lab: Lab, query: dict[str, str]) -> None:
    assert draw(PAGE, **query).title[0].value == "Model search"


def test_one_sweep_of_each_kind_fills_every_view(lab: Lab, images: Path) -> None:
    small = {"image_size": 32, "workers": 0, "threads": 1, "batch_size": 8}
    for content in (
            {"experiment": "finetune", "grid": {"layers": ["all", "head"]},
             "fixed": {**small, "train_images": 16, "epochs": 1}},
            {"experiment": "extract", "grid": {"standardise": [True, False]}, "fixed": {**small, "train_images": 16}},
            {"experiment": "bottleneck", "grid": {"arrangement": ["joint", "separate"], "head_classes": [10, 20]},
             "fixed": {**small, "items": 16, "models": 2, "part": "last_1_block"}}):
        assert set(lab.json("sweep", lab.sweep_file(**content), "--wait")["runs"]) == {"ok"}
    page = draw(PAGE)
    said = words(page)
    assert "Fine-tuning takes **" in said and "head only" in said
    assert set(page.dataframe[0].value["95 % interval"]) == {"one run, no interval"}
    assert "Too few runs to tell" in said
    scenario = draw(PAGE, view="End to end")
    assert "measured: resnet18, 20 images, 1 epochs" in str(scenario.selectbox(key="choose_basis").options)
    assert "images: extraction" in words(scenario) and ", linear head " in words(scenario)
    searched = own(scenario)
    scenario.selectbox(key="choose_search").set_value("extraction").run()
    assert ", without a score." in words(scenario) and own(scenario) != searched
    assert own(scenario) == own(draw(PAGE, view="End to end", basis=asked(scenario, "basis"),
                                     search="extraction"))
    joined = words(draw(PAGE, view="Bottlenecks"))
    assert "2 models that differ in their last block: " in joined and "100% of it in the file cache" in joined
    agreement = draw(PAGE, view="Agreement")
    assert "too few to tell" in words(agreement) and "head only" not in words(agreement)
    assert "fine-tuned (head only); at least" in words(draw(PAGE, view="Agreement", layers="head"))
    for view in ("Bottlenecks", "Agreement"):
        page = draw(PAGE, view=view)
        first = asked(page, "setting")
        page.selectbox(key="choose_setting").select_index(1).run()
        assert len(first) == 8 and asked(page, "setting") != first, "an id that stays, not a position"
        assert words(no_exception(page)) == words(draw(PAGE, view=view, setting=asked(page, "setting"))), view
    assert "launch the small pair, which has five" in words(agreement)
    assert "Launch the small fine-tuning" in str([link.proto.label for link in agreement.get("page_link")])
