"""The walls: which room may import which, read from the sources. A broken rule names the file and the import."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

from engine.home import PROJECT

ROOMS = ("engine", "analysis", "store", "ui", "pages")
MAY_IMPORT = {
    "engine": {"engine"},
    "analysis": {"analysis"},
    "store": {"store", "analysis", "engine.journal", "engine.home", "engine.files"},
    "ui": {"ui", "analysis", "store", "engine.params", "engine.spec", "engine.registry", "engine.home",
           "engine.sweep_state"},
}
"""Glue (pages and the files beside app.py) may import everything. A dotted name allows that module only."""
LIBRARIES = {
    "torch": {"engine"}, "torchvision": {"engine"}, "pynvml": {"engine"},
    "streamlit": {"ui", "pages", "app.py", "begin.py", "launching.py", "predicting.py", "serving.py",
                  "boarding.py", "exporting.py"},
    "altair": {"ui", "pages"},
    "duckdb": {"store"}, "pyarrow": {"store", "ui"},
}
"""Which rooms may import a library that belongs to one of them."""
PURE = {"os", "pathlib", "subprocess", "socket", "shutil", "tempfile", "sqlite3", "duckdb", "requests"}
"""What analysis/ must not touch: it has no input and no output."""


def sources(project: Path = PROJECT) -> list[Path]:
    return [*(file for room in ROOMS for file in sorted((project / room).rglob("*.py"))),
            *(file for name in ("app.py", "begin.py", "boarding.py", "exporting.py", "hand.py", "launching.py",
                                "lab.py", "predicting.py", "serving.py") if (file := project / name).exists())]


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether the import runs when the file is loaded."""
    tree = ast.parse(file.read_text())
    checked_only = {inner for node in ast.walk(tree) if isinstance(node, ast.If)
                    and "TYPE_CHECKING" in ast.dump(node.test) for inner in ast.walk(node)}
    inside = {inner for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
              for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in checked_only:
            continue
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            for name in node.names:
                yield f"{node.module}.{name.name}", node not in inside


def broken_rules(project: Path = PROJECT) -> list[str]:
    broken = []
    for file in sources(project):
        where = file.relative_to(project)
        room = where.parts[0] if where.parts[0] in ROOMS else where.name
        for name, at_load in imports(file):
            top = name.partition(".")[0]
            if top in ROOMS and room in MAY_IMPORT and not any(
                    name == allowed or name.startswith(allowed + ".") for allowed in MAY_IMPORT[room]):
                broken.append(f"{where}: {room}/ may not import {name}")
            if top in LIBRARIES and room not in LIBRARIES[top]:
                broken.append(f"{where}: {room} may not import {top}")
            if room == "analysis" and top in PURE:
                broken.append(f"{where}: analysis/ is pure and may not import {top}")
            if top in ("torch", "torchvision") and at_load and where.as_posix() != "engine/preload.py":
                broken.append(f"{where}: imports {top} when it is loaded; import it inside the function that needs it")
    return broken


def test_imports_point_down_only() -> None:
    assert broken_rules() == []


def test_a_forbidden_import_is_named(tmp_path: Path) -> None:
    """The test can fail: the same check over a copy of the sources with one file added per rule."""
    for room in ROOMS:
        if (PROJECT / room).is_dir():
            shutil.copytree(PROJECT / room, tmp_path / room)
    added = [
        ("engine", "import duckdb", "engine may not import duckdb"),
        ("engine", "from store.database import Store", "engine/ may not import store.database.Store"),
        ("store", "from engine.sweep import main", "store/ may not import engine.sweep.main"),
        ("analysis", "import os", "analysis/ is pure and may not import os"),
        ("store", "import streamlit", "store may not import streamlit"),
        ("engine", "import torch", "imports torch when it is loaded; import it inside the function that needs it"),
    ]
    for number, (room, line, _) in enumerate(added):
        (tmp_path / room / f"added_{number}.py").write_text(f"{line}\n")
    assert sorted(broken_rules(tmp_path)) == sorted(
        f"{room}/added_{number}.py: {expected}" for number, (room, _, expected) in enumerate(added))


def test_sql_lives_in_the_store_only() -> None:
    words = ("SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE")
    outside = [file for file in sources() if file.relative_to(PROJECT).parts[0] != "store"]
    found = [f"{file.relative_to(PROJECT)}: {node.value[:40]!r}" for file in outside
             for node in ast.walk(ast.parse(file.read_text()))
             if isinstance(node, ast.Constant) and str(node.value).lstrip().startswith(words)]
    assert found == []


def test_every_file_opens_with_what_it_is_for() -> None:
    assert [str(file) for file in sources() if not ast.get_docstring(ast.parse(file.read_text()))] == []
