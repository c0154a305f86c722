"""The Machine page: the check runs and says its verdict, a cache is removed after asking, viewers may do neither."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from engine import noise_check, queue
from engine.home import PROJECT
from engine.noise_check import kept_at, run_check

MACHINE = "pages/Machine.py"
VERDICT = re.compile(r"\*\*(Quiet|Usable with repeats|Noisy)\.\*\*")


@pytest.fixture(autouse=True)
def short_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_check, "CHECK_S", 0.3)


def verdict(page: AppTest) -> str | None:
    boxes = [box.value for kind in (page.success, page.info, page.warning) for box in kind]
    found = [match[1] for box in boxes if (match := VERDICT.match(box))]
    return found[0] if found else None


def fill_cache(lab: Lab, name: str = "weights/resnet18.pth", size: int = 3 * 2**20) -> Path:
    file = lab.home.cache / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file


def test_an_empty_lab_says_what_the_check_is_for(lab: Lab) -> None:
    page = draw(MACHINE)
    assert verdict(page) is None
    assert any("Not checked yet" in text.value for text in page.markdown)
    assert any(text.value.startswith("Empty.") for text in page.markdown)
    assert page.button(key="check_noise").label == "Check how quiet this machine is (0.3 s)"


def test_the_check_runs_shows_its_verdict_and_is_there_tomorrow(lab: Lab) -> None:
    page = draw(MACHINE)
    no_exception(page.button(key="check_noise").click().run())
    assert verdict(page)
    metrics = {metric.label: metric.value for metric in page.metric}
    assert metrics["Block to block"].endswith(" %") and metrics["3 repeats per cell"].endswith(" %")
    assert metrics["Other work"].endswith(" cores")
    assert verdict(draw(MACHINE)) == verdict(page), "another visitor sees the same"
    assert any("UTC, just now" in caption.value.replace("\\", "") for caption in page.caption)


def test_the_check_is_refused_while_a_sweep_is_measured(lab: Lab) -> None:
    lock = queue.MachineLock()
    page = draw(MACHINE)
    assert lock.try_to_take()
    no_exception(page.button(key="check_noise").click().run())
    lock.release()
    assert any("is being measured now" in box.value for box in page.warning)
    assert not kept_at(lab.home).exists()


def test_a_cache_is_removed_after_asking(lab: Lab) -> None:
    file, other = fill_cache(lab), fill_cache(lab, "generated-v1/stripes_000_coarse/000000.jpg")
    page = draw(MACHINE)
    assert file.exists(), "drawing removes nothing"
    no_exception(page.button(key="ask weights").click().run())
    assert file.exists(), "asking removes nothing"
    button = page.button(key="clean weights")
    assert button.label == "Remove 3.0 MiB"
    no_exception(button.click().run())
    assert not file.exists() and other.exists()
    assert any("3.0 MiB are free again" in toast.value for toast in page.toast)
    assert [button.key for button in page.button if button.key and button.key.startswith("ask")] == [
        "ask generated-v1"]


def test_a_cache_that_a_sweep_may_need_stays(lab: Lab) -> None:
    file = fill_cache(lab)
    page = draw(MACHINE)
    no_exception(page.button(key="ask weights").click().run())
    lock = queue.MachineLock()
    assert lock.try_to_take()
    no_exception(page.button(key="clean weights").click().run())
    lock.release()
    assert file.exists()
    assert any("is being measured now" in toast.value for toast in page.toast)


def test_viewers_may_neither_clean_nor_check(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The buttons are pressed as a tampered browser would, though they are disabled: Streamlit discards that."""
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    file = fill_cache(lab)
    page = draw(MACHINE)
    for key in ("check_noise", "ask weights"):
        button = page.button(key=key)
        assert button.disabled
        button.proto.disabled = False  # in the browser's copy only
        no_exception(button.click().run())
        assert not [button.key for button in page.button if button.key == "clean weights"]
    assert file.exists()
    assert not kept_at(lab.home).exists()


def test_the_page_itself_refuses_viewers(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second wall: a copy of the page that forgets to disable its buttons still does nothing for a viewer."""
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    copy = tmp_path / "copy"
    shutil.copytree(PROJECT / "pages", copy / "pages")
    shutil.copy(PROJECT / "app.py", copy)
    source = (copy / "pages" / "Machine.py").read_text()
    forgetful = source.replace("disabled=lab.viewer", "disabled=False").replace("lab.viewer, clean", "False, clean")
    assert forgetful.count("False") == source.count("False") + 2
    (copy / "pages" / "Machine.py").write_text(forgetful)
    file = fill_cache(lab)
    page = draw(MACHINE, copy)
    said = []
    for key in ("check_noise", "ask weights", "clean weights"):
        no_exception(page.button(key=key).click().run())
        said += [box.value.replace("\\", "") for kind in (page.error, page.toast) for box in kind]
    assert said == ["Viewer mode: look at everything, change nothing."] * 2
    assert file.exists()
    assert not kept_at(lab.home).exists()


def test_names_in_the_cache_and_of_machines_are_shown_as_text(lab: Lab) -> None:
    fill_cache(lab, "<img src=x onerror=alert(1)>**bold**/x")
    run_check(lab.home, 0.2)
    kept_at(lab.home).write_bytes(re.sub(rb'"hostname":"[^"]*"', b'"hostname":"<script>[a](b)"',
                                         kept_at(lab.home).read_bytes()))
    page = draw(MACHINE)
    shown = [text.value for kind in (page.markdown, page.caption) for text in kind]
    assert not [text for text in shown if "<img" in text or "<script" in text]
    assert any("another machine" in text for text in shown)


def test_what_a_gpu_does_not_tell_is_not_available() -> None:
    from ui.machine_page import gpu_table

    (row,) = gpu_table([{"index": 0, "name": "Stub", "memory_total_bytes": None, "gpu_utilization": 0.0,
                         "power_watts": None}]).to_dict("records")
    assert row["Memory"] == row["Power"] == row["Clock"] == "not available"
    assert row["Busy"] == "0.0%", "a reading of zero is a reading"


def test_the_strip_draws_every_piece_until_there_are_too_many() -> None:
    from ui.noise_chart import POINTS, DrawnPart, noise_strip, slower_than_drawn

    few = [DrawnPart("On one core", 0.0, [[0.004] * 99 + [0.1]], 0.004)]
    chart = noise_strip(few).to_dict()
    points = max(chart["datasets"].values(), key=len)
    assert len(points) == 100 and points[-1]["time_s"] == pytest.approx(0.396)
    assert slower_than_drawn(few) == 1
    many = [DrawnPart("On 64 cores", 0.0, [[0.004] * 600 + [0.02]] * 64, 0.004)]
    points = max(noise_strip(many).to_dict()["datasets"].values(), key=len)
    assert len(points) < POINTS + 200
    assert sum(point["milliseconds"] == 20 for point in points) == 64, "the slow ones stay"
