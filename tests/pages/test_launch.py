"""The Launch page: the form explains what is wrong at its field, and nothing wrong starts anything."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

import launching
from analysis.expectation import PastRun, expect
from begin import Lab as PageLab
from begin import open_keeper
from engine.home import PROJECT
from engine.params import InputError
from engine.spec import read_spec
from tests.store.small_lab import write_sweep
from ui.launch_page import Cost, say_expected

LAUNCH = "pages/Launch.py"


def errors(page: AppTest) -> str:
    return " ".join(box.value for box in page.error).replace("\\", "")


def fill(page: AppTest, parameter: str, text: str) -> AppTest:
    key = next(field.key for field in page.text_input if field.key and field.key.startswith(f"inference.{parameter}."))
    return no_exception(page.text_input(key=key).set_value(text).run())


def launch_button(page: AppTest) -> list[bool]:
    return [button.disabled for button in page.button if button.label == "Launch"]


@pytest.mark.parametrize(("parameter", "text", "said"), [
    ("batch_size", "0", "must be 1 to 65536"), ("batch_size", "abc", "must be 1 to 65536"),
    ("workers", "-1", "must be 0 to 512"), ("image_size", "1e999", "must be"), ("batch_size", "", "at least one value"),
    ("device", "gpu", "must be auto, cpu, cuda")])
def test_an_invalid_value_is_explained_at_its_field(lab: Lab, parameter: str, text: str, said: str) -> None:
    page = fill(draw(LAUNCH), parameter, text)
    assert said in errors(page) and parameter in errors(page)
    assert launch_button(page) == []


def test_values_that_do_not_fit_together_are_explained(lab: Lab) -> None:
    page = fill(fill(draw(LAUNCH), "batches", "5"), "images", "100")
    assert "keep one of them" in errors(page) and launch_button(page) == []


def test_several_values_make_a_grid_and_are_counted(lab: Lab) -> None:
    page = fill(fill(draw(LAUNCH), "batch_size", "8, 32"), "workers", "0,1,2")
    assert {metric.label: metric.value for metric in page.metric}["Runs"] == "18"
    assert any("unknown, first of its kind" in text.value for text in page.markdown)
    shown = yaml.safe_load(page.code[0].value)
    assert shown["grid"] == {"batch_size": [8, 32], "workers": [0, 1, 2]} and shown["repeats"] == 3


@pytest.mark.parametrize("text", ["/etc", "../../etc", "no-such-folder"])
def test_a_folder_from_the_browser_stays_below_the_allowed_ones(lab: Lab, text: str) -> None:
    page = draw(LAUNCH)
    key = next(field.key for field in page.multiselect if field.key and ".data." in field.key)
    page.multiselect(key=key).set_value([text])
    page = no_exception(page.run())
    assert "PHASELAB_DATA" in errors(page) and launch_button(page) == []


def test_a_folder_that_does_not_exist_is_explained_before_launching(lab: Lab) -> None:
    page = draw(LAUNCH)
    key = next(field.key for field in page.multiselect if field.key and ".data." in field.key)
    page.multiselect(key=key).set_value([str(lab.home.root / "data" / "missing")])
    page = no_exception(page.run())
    assert "missing" in errors(page) and launch_button(page) == []
    assert lab.home.sweep_ids() == []


@pytest.mark.parametrize(("text", "said"), [
    ("experiment: inference\ngird: {batch_size: [1]}", "did you mean grid?"), ("just words", "must hold entries"),
    ("experiment: [", "is not YAML"), ("experiment: no_such\ngrid: {seed: [1]}", "no_such"),
    ("experiment: inference\nname: " + "<script>" * 1250 + "\ngrid: {seed: [1]}", "at most 200 characters")])
def test_yaml_that_cannot_be_read_is_explained_and_fills_nothing(lab: Lab, text: str, said: str) -> None:
    page = draw(LAUNCH)
    area = next(area for area in page.text_area if area.label == "A sweep as YAML")
    area.set_value(text)
    page = no_exception(next(button for button in page.button if button.label == "Fill the form").click().run())
    assert said in errors(page)
    assert {metric.label: metric.value for metric in page.metric}["Runs"] == "3"


def test_yaml_fills_the_form_and_comes_out_the_same(lab: Lab) -> None:
    content = {"experiment": "inference", "name": "mine", "notes": "why", "tags": ["a"], "repeats": 2,
               "grid": {"batch_size": [8, 16]}, "fixed": {"image_size": 64}, "limits": {"run_s": 60.0}}
    page = draw(LAUNCH)
    area = next(area for area in page.text_area if area.label == "A sweep as YAML")
    area.set_value(yaml.safe_dump(content))
    page = no_exception(next(button for button in page.button if button.label == "Fill the form").click().run())
    assert yaml.safe_load(page.code[0].value) == content


def test_links_fill_the_form_from_a_preset_a_sweep_or_a_run(lab: Lab) -> None:
    sweep_id = write_sweep(lab.home)
    run_id = lab.json("runs")["runs"][0]["run_id"]
    assert yaml.safe_load(draw(LAUNCH, preset="tour").code[0].value)["name"] == "one-minute tour"
    assert {m.label: m.value for m in draw(LAUNCH, from_sweep=sweep_id).metric}["Cells"] == "1"
    assert {m.label: m.value for m in draw(LAUNCH, from_run=run_id).metric}["Cells"] == "1"
    assert any("not here" in box.value for box in draw(LAUNCH, from_run="nobody").warning)


def test_cells_that_cannot_run_here_are_counted_with_the_reason(lab: Lab) -> None:
    page = fill(draw(LAUNCH), "device", "cpu, cuda")
    assert any("1 of 2 cells cannot run here" in box.value and "no NVIDIA GPU" in box.value for box in page.warning)


def test_the_expected_time_claims_no_spread_from_one_run(lab: Lab) -> None:
    def said(past: list[PastRun], cannot_run: int = 0) -> str:
        cells = [("a", "work"), ("b", "other")]
        return say_expected(Cost(2, 2, expect(cells[: 2 - cannot_run], 1, past), 0, ["no GPU"] * cannot_run))

    once = said([PastRun("a", "work", 2.0)])
    assert "about 2.00 s**, with no known spread" in once and "from 1 earlier run on" in once
    assert "1 cell, the first of its kind" in once
    assert "first of" not in said([PastRun("a", "work", 2.0)], cannot_run=1)
    assert "**2.00 s to 3.00 s**, plus" in said([PastRun("a", "work", 2.0), PastRun("a", "work", 3.0)])


def test_a_value_left_open_beside_others_stays(lab: Lab) -> None:
    content = {"experiment": "inference", "name": "mine", "repeats": 1, "grid": {"images": [None, 640]}}
    page = draw(LAUNCH)
    next(area for area in page.text_area if area.label == "A sweep as YAML").set_value(yaml.safe_dump(content))
    page = no_exception(next(button for button in page.button if button.label == "Fill the form").click().run())
    assert yaml.safe_load(page.code[0].value)["grid"] == {"images": [None, 640]}


def test_a_viewer_is_refused_before_the_hand_is_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged click reaches the page's code: nothing may have been begun when it is told no."""
    draw(LAUNCH)
    keeper = open_keeper()
    viewer, begun = PageLab(lab.home, keeper, keeper.store.cursor(), True), list[str]()
    monkeypatch.setattr(launching, "launched", lambda: SimpleNamespace(once=lambda *given: begun.append("launched")))
    monkeypatch.setattr(launching.st, "error", begun.append)
    launching.launch_and_watch(viewer, read_spec(PROJECT / "presets" / "tour.yaml"))
    assert [text[:6] for text in begun] == ["Viewer"]


def test_the_only_way_to_change_something_refuses_viewers_and_tells_wrong_input(lab: Lab) -> None:
    draw(LAUNCH)
    from begin import open_keeper

    keeper, said, done = open_keeper(), list[str](), list[str]()

    def wrong() -> None:
        raise InputError("name=x: is wrong")

    for viewer in (True, False):
        page = PageLab(lab.home, keeper, keeper.store.cursor(), viewer)
        page.do(done.append, "changed", say=said.append)
        page.do(wrong, say=said.append)
    assert done == ["changed"] and [text[:6] for text in said] == ["Viewer", "Viewer", "name=x"]


def test_a_study_keeps_its_own_number_of_repeats(lab: Lab) -> None:
    """A sweep without `repeats` has one run per cell; the form's own suggestion is for empty forms only."""
    def repeats(page: AppTest) -> float:
        return float(next(field for field in page.number_input if field.label.startswith("Repeats")).value)

    assert "repeats" not in (PROJECT / "presets" / "seed-002-memory.yaml").read_text()
    assert repeats(draw(LAUNCH, preset="seed-002-memory")) == 1 and repeats(draw(LAUNCH)) == 3
    page = draw(LAUNCH, preset="seed-000-extract")
    assert repeats(page) == 5 and "imagenette" in errors(page)  # not downloaded here: said at its field


def test_an_absurd_grid_is_refused_before_it_is_multiplied_out(lab: Lab) -> None:
    values = ", ".join(map(str, range(1, 201)))
    page = fill(fill(draw(LAUNCH), "batch_size", values), "workers", values)
    assert "40,000 cells" in errors(page) and launch_button(page) == []
