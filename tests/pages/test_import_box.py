"""Importing on the Runs page: a preview first, a sentence for a wrong file, refused to viewers."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_page import draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from engine.bundles import bundle_bytes
from engine.environment import environment_id_of
from engine.home import Home
from tests.store.journal_builder import FACTS, Script

GOOD = b"model,batch_size,workers,end_to_end_s,load_data_s\nresnet18,32,1,10.0,5\nresnet18,32,2,8.0,4\n"


def upload(page: AppTest, content: bytes) -> AppTest:
    page.file_uploader[0].set_value(("mine.csv", content, "text/csv"))
    return no_exception(page.run())


def test_a_file_is_shown_and_then_imported(lab: Lab) -> None:
    page = upload(draw("pages/Runs.py"), GOOD)
    assert any("2 runs of 2 cells" in text.value for text in page.markdown)
    assert lab.json("sweeps")["sweeps"] == []  # shown only
    page = no_exception(page.button(key="import_do").click().run())
    (sweep,) = lab.json("sweeps")["sweeps"]
    assert (sweep["source"], sweep["runs"], sweep["name"]) == ("imported", {"ok": 2}, "imported: mine.csv")
    assert any("2 runs" in text.value for text in page.caption)
    run_id = lab.json("runs")["runs"][0]["run_id"]
    opened = draw("pages/Runs.py", run=run_id)
    assert any("imported" in text.value and "measured elsewhere" in text.value for text in opened.markdown)


def test_a_wrong_file_is_told_with_its_line(lab: Lab) -> None:
    page = upload(draw("pages/Runs.py"), GOOD + b"resnet18,32,4,-1,<script>\n")
    assert any("line 4" in box.value and "negative" in box.value for box in page.error)
    assert not [button for button in page.button if button.key == "import_do"]
    assert lab.home.sweep_ids() == []


def test_a_viewer_imports_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASELAB_VIEWER", "1")
    page = draw("pages/Runs.py")
    assert page.file_uploader[0].disabled
    assert lab.home.sweep_ids() == []


def test_what_the_command_line_imports_while_the_app_is_open_is_found(lab: Lab) -> None:
    draw("pages/Runs.py")
    file = lab.home.root.parent / "made.csv"
    file.write_bytes(GOOD)
    answer = lab.json("import", str(file), "--experiment", "inference")
    from begin import open_keeper

    open_keeper().catch_up(60)
    assert any("2 runs" in text.value for text in draw("pages/Runs.py", sweep=answer["sweep_id"]).caption)


def test_a_bundle_is_shown_and_then_imported(lab: Lab, tmp_path: Path) -> None:
    """Its machine is named on the pages of its runs, and it can be taken away again."""
    origin = Home(tmp_path / "origin")
    script = Script(origin).begin(environment_id=environment_id_of(FACTS), name="<b>pooled</b>")
    run_id = script.run(0)
    script.end().write()
    content = bundle_bytes(origin, script.sweep_id)

    page = draw("pages/Runs.py")
    page.file_uploader[0].set_value(("theirs.zip", content[:-1], "application/zip"))
    page = no_exception(page.run())
    assert any("cut short" in box.value for box in page.error) and lab.home.sweep_ids() == []
    page.file_uploader[0].set_value(("theirs.zip", content, "application/zip"))
    page = no_exception(page.run())
    assert any("&lt;b&gt;pooled" in text.value and "1 ok" in text.value for text in page.markdown)
    page = no_exception(page.button(key="import_do").click().run())
    assert lab.home.sweep_ids() == [script.sweep_id]
    assert page.dataframe[0].value["source"].tolist() == ["bench"]
    assert any("measured on bench" in text.value for text in draw("pages/Runs.py", run=run_id).markdown)
    assert any("came in a bundle" in text.value for text in draw("pages/Live.py", sweep=script.sweep_id).caption)
    assert bundle_bytes(lab.home, script.sweep_id) == content
