"""Docs that cannot go stale: the example runs, the README's tree names every file, what the tour names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from driven_lab import Lab

from engine.home import PROJECT
from ui.frame import PAGES


def test_the_example_experiment_runs(lab: Lab, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (PROJECT / "docs" / "add-an-experiment.md").read_text(), re.DOTALL)
    assert code
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "matrix.py").write_text(code.group(1))
    lab.environment["PHASELAB_EXPERIMENTS"] = str(tmp_path / "own")
    file = lab.sweep_file(experiment="matrix", grid={"size": [8, 16]}, fixed={"batches": 5})
    assert lab.json("sweep", file, "--wait")["runs"] == {"ok": 2}
    run = lab.json("runs")["runs"][0]
    assert run["phases"]["inference"]["count"] == 5
    assert run["metrics"]["flop_per_product"] == 2 * run["params"]["size"] ** 3


def test_the_readme_names_every_file() -> None:
    tree = (PROJECT / "README.md").read_text().partition("## Where things are")[2]
    files = [file for room in ("engine", "store", "analysis", "ui", "pages") for file in (PROJECT / room).rglob("*.py")
             if file.name != "__init__.py"]
    assert [str(file.relative_to(PROJECT)) for file in files if file.name not in tree] == []


def test_presets_are_valid() -> None:
    from engine.spec import make_cells, read_spec

    presets = list((PROJECT / "presets").glob("*.yaml"))
    assert presets
    for preset in presets:
        assert make_cells(read_spec(preset))


def links_of(document: Path) -> list[str]:
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()) if "://" not in target]


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md"])
def test_what_a_document_points_at_is_there(name: str) -> None:
    document = PROJECT / name
    assert [target for target in links_of(document) if not (document.parent / target).exists()] == []


def test_the_tour_names_pages_buttons_and_commands_that_exist() -> None:
    """Bold words are the app's own: a page's title or the label of something to press."""
    import lab as command_line

    text = (PROJECT / "docs" / "tour.md").read_text()
    commands = re.findall(r"lab\.py ([a-z-]+)", text)
    assert {"sweep", "export", "import"} <= set(commands) <= set(command_line.cli.commands)
    for options in re.findall(r"--format (\w+)", text):
        assert options in next(option.type.choices for option in command_line.cli.commands["export"].params
                               if option.name == "form")
    titles = {page.title for page in PAGES}
    sources = "".join(file.read_text() for folder in ("ui", "pages") for file in (PROJECT / folder).glob("*.py"))
    sources += (PROJECT / "app.py").read_text()
    bold = set(re.findall(r"\*\*([^*]+)\*\*", text))
    assert titles & bold >= {"Home", "Live", "Runs", "Compare", "Boards", "Present", "SQL", "Batch & workers"}
    assert [word for word in sorted(bold - titles) if f'"{word}"' not in sources] == []


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted((PROJECT / "docs" / "pictures").glob("*.png"))
    shown = {(PROJECT / target).resolve() for target in links_of(PROJECT / "README.md")} \
        | {(PROJECT / "docs" / target).resolve() for target in links_of(PROJECT / "docs" / "tour.md")}
    assert len(pictures) >= 5
    assert [picture.name for picture in pictures if picture.stat().st_size > 200_000 or picture not in shown] == []
