"""The Runs page: tags, notes, archive, delete with a question and an undo; a viewer can do none of it."""

from __future__ import annotations

import pytest
from drawn_page import assert_replayed, draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.errors import AppTestError

from begin import open_keeper
from engine.journal import File, Metric
from engine.people import annotate
from tests.store.journal_builder import Script
from tests.store.small_lab import write_sweep
from ui.frame import safe


@pytest.fixture
def sweep_id(lab: Lab) -> str:
    return write_sweep(lab.home)


def press(page: AppTest, key: str) -> AppTest:
    return no_exception(page.button(key=key).click().run())


def caption(page: AppTest) -> str:
    return " ".join(text.value for text in page.caption)


def test_a_sweep_is_tagged_and_found_by_its_tag(lab: Lab, sweep_id: str) -> None:
    annotate(lab.home, ["another sweep"], "tag", "good")
    page = draw("pages/Runs.py", sweep=sweep_id)
    page.selectbox(key="sweep_tag_value").set_value("good").run()
    press(page, "sweep_do_tag")
    assert "3 runs" in caption(draw("pages/Runs.py", tag="good"))
    page = draw("pages/Runs.py", sweep=sweep_id)
    page.selectbox(key="sweep_tag_value").set_value("good").run()
    press(page, "sweep_do_untag")
    assert "3 runs" not in caption(draw("pages/Runs.py", tag="good"))


def test_tags_with_commas_are_several(lab: Lab, sweep_id: str) -> None:
    annotate(lab.home, [sweep_id, "another sweep"], "tag", "good, fast,,good")
    assert "3 runs" in caption(draw("pages/Runs.py", tag="fast"))
    assert "3 runs" in caption(draw("pages/Runs.py", tag="good"))
    annotate(lab.home, [sweep_id], "untag", "fast")
    open_keeper().catch_up(60)
    assert "3 runs" in caption(draw("pages/Runs.py", tag="good"))
    assert "3 runs" not in caption(draw("pages/Runs.py", tag="fast"))


def test_deleted_runs_are_not_missing(lab: Lab, sweep_id: str) -> None:
    run_id = lab.json("runs")["runs"][0]["run_id"]
    annotate(lab.home, [run_id], "delete")
    assert lab.json("sweeps")["sweeps"][0]["runs"] == {"ok": 2}
    page = draw("pages/Live.py", sweep=sweep_id)
    assert not any(button.label.startswith("Resume") for button in page.button)
    assert "2 of 2 runs done" in page.get("progress")[0].proto.text


def test_a_link_to_a_sweep_that_is_gone_does_not_show_all_runs_silently(lab: Lab, sweep_id: str) -> None:
    assert not draw("pages/Runs.py", sweep=sweep_id).warning
    (box,) = draw("pages/Runs.py", sweep="20200101-000000-aaaa").warning
    assert "Sweep: what the link names is not here" in box.value and "Nothing is chosen" in box.value


def test_deleted_runs_are_found_by_their_sweep(lab: Lab, sweep_id: str) -> None:
    annotate(lab.home, [sweep_id], "delete")
    open_keeper().catch_up(60)
    page = draw("pages/Runs.py", sweep=sweep_id, shown="deleted")
    assert not page.warning and "3 runs" in caption(page)
    assert draw("pages/Runs.py", sweep=sweep_id).warning


def test_a_run_says_what_it_is(lab: Lab, sweep_id: str) -> None:
    run = lab.json("runs")["runs"][0]
    title = draw("pages/Runs.py", run=run["run_id"]).subheader[0].value
    assert f"seed={run['params']['seed']}" in title.replace("\\", "") and sweep_id in title.replace("\\", "")


def test_a_note_is_kept_and_shown_with_its_markdown_as_text(lab: Lab, sweep_id: str) -> None:
    run_id = lab.json("runs")["runs"][0]["run_id"]
    page = draw("pages/Runs.py", run=run_id)
    page.text_area(key=f"one_note_value_{run_id}").set_value("<script>alert(1)</script> ![x](http://a.b/c)").run()
    press(page, "one_do_note")
    shown = [text.value for text in draw("pages/Runs.py", run=run_id).markdown if "alert" in text.value]
    assert shown and "<script>" not in shown[0] and "![x](" not in shown[0]


def test_the_title_of_a_file_is_no_markdown(lab: Lab) -> None:
    """It comes from the run's journal, and so from whoever made an imported bundle."""
    script = Script(lab.home).begin()
    run_id = script.run(0)
    path = script.folder.runs / f"{run_id}.files" / "kept.json"
    title = "![x](http://a.b/c) :red[kept] <b>"
    script.say(File(run_id, path.relative_to(script.folder.path).as_posix(), title, 2))
    script.end().write()
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    page = draw("pages/Runs.py", run=run_id, tab="Files")
    labels = [button.proto.label for button in page.get("download_button")]
    assert any(label.startswith(safe(title)) for label in labels), labels
    assert not any("![x]" in label or ":red[" in label for label in labels)


def test_every_metric_of_a_run_is_among_its_results(lab: Lab) -> None:
    metrics = {"val_accuracy": (0.875, ""), "finetune_s": (2.5, "s"), "feature_bytes": (2048.0, "bytes"),
               "epoch_001_val_accuracy": (0.9, ""), "epoch_002_val_accuracy": (0.875, ""),
               "epoch_001_train_s": (1.5, "s"), "epoch_002_train_s": (0.25, "s")}
    script = Script(lab.home, experiment="finetune").begin()
    run_id = script.run(0)
    script.say(*(Metric(run_id, name, value, unit) for name, (value, unit) in metrics.items()))
    script.end().write()
    page = draw("pages/Runs.py", run=run_id, tab="Results")
    said = [text.value for text in page.markdown]
    assert "Validation accuracy **87.5%** after epoch 2 (best 90.0%, after 1)." in said
    assert "Training took 1.50 s in epoch 1, later 250 ms per epoch (median)." in said
    table = page.dataframe[0].value
    shown = dict(zip(table["Metric"], table["Value"], strict=True))
    assert shown.items() >= {"val_accuracy": "0.875", "finetune_s": "2.50 s", "feature_bytes": "2.0 KiB",
                             "epoch_002_train_s": "250 ms"}.items()
    assert list(table["Metric"])[-4:] == sorted(name for name in metrics if name.startswith("epoch_"))
    assert_replayed("Runs", run=run_id, tab="Results")


def test_archived_runs_leave_the_current_ones(lab: Lab, sweep_id: str) -> None:
    press(draw("pages/Runs.py", sweep=sweep_id), "sweep_archive")
    assert "No run fits" in " ".join(text.value for text in draw("pages/Runs.py").markdown)
    assert "3 runs" in caption(draw("pages/Runs.py", shown="archived"))


def test_a_delete_asks_and_can_be_undone(lab: Lab, sweep_id: str) -> None:
    page = press(draw("pages/Runs.py", sweep=sweep_id), "sweep_delete")
    assert len(lab.json("runs")["runs"]) == 3  # asked only
    confirm = next(button for button in page.button if button.label == "Delete this sweep")
    page = no_exception(confirm.click().run())
    assert lab.json("sweeps")["sweeps"] == []
    press(page, "undo_delete")
    assert len(lab.json("runs")["runs"]) == 3


def test_erasing_asks_and_then_nothing_is_left(lab: Lab, sweep_id: str) -> None:
    page = press(draw("pages/Runs.py", sweep=sweep_id), "sweep_delete")
    no_exception(next(button for button in page.button if button.label == "Delete this sweep").click().run())
    page = draw("pages/Runs.py", shown="deleted")
    page = no_exception(next(b for b in page.button if b.label == "Erase all deleted for good").click().run())
    assert lab.home.sweep_ids() == [sweep_id]
    no_exception(next(b for b in page.button if b.label == "Erase 1 for good").click().run())
    assert lab.home.sweep_ids() == []


def test_a_viewer_changes_nothing(lab: Lab, sweep_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    page = draw("pages/Runs.py", sweep=sweep_id)
    assert all(button.disabled for button in page.button if button.key and button.key.startswith("sweep_"))
    with pytest.raises(AppTestError, match="disabled"):
        page.button(key="sweep_archive").click().run()
    assert not lab.home.people.exists()
    assert "3 runs" in caption(draw("pages/Runs.py"))


def test_the_published_figures_name_their_study(lab: Lab) -> None:
    page = draw("pages/Runs.py", shown="published")
    assert "published figures" in caption(page)
    frame = page.dataframe[0].value
    assert set(frame["study"]) == {"seed 000", "seed 001", "seed 002", "seed 003", "seed 004"}
    chosen = (frame["subject"] == "batch 128, 12 workers, imagenette") & (frame["metric"] == "mean regret")
    assert list(frame[chosen]["value"]) == ["0.01958"]
