"""Docs that cannot go stale: the example experiment runs, and the README's tree names every file."""

from __future__ import annotations

import re
from pathlib import Path

from driven_lab import Lab

from engine.home import PROJECT


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
