"""Paths of variables count from where a person is, also for processes that work in the project's folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.home import PROJECT, Home, whole_paths


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PHASELAB_HOME": "mine", "PHASELAB_MACHINE_LOCK": "lock"}


def test_every_variable_that_names_a_path_is_made_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"PHASELAB_HOME": "mine", "PHASELAB_MACHINE_LOCK": "lock", "PHASELAB_EXPERIMENTS": "",
                        "PHASELAB_DATA": f"one{os.pathsep}/two"}.items():
        monkeypatch.setenv(name, value)
    assert whole_paths() == {"PHASELAB_HOME": str(tmp_path / "mine"), "PHASELAB_MACHINE_LOCK": str(tmp_path / "lock"),
                             "PHASELAB_DATA": f"{tmp_path / 'one'}{os.pathsep}/two"}


def test_snapshots_are_those_of_the_lab_that_was_named(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine" / "snapshots" / "here").mkdir(parents=True)
    found = subprocess.run([sys.executable, str(PROJECT / "lab.py"), "snapshots", "--json"], cwd=tmp_path,
                           env=environment, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["stores"] == {"here": []}


def test_the_app_opens_the_lab_that_was_named(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = subprocess.Popen([sys.executable, str(PROJECT / "lab.py"), "app", "--port", str(port)], cwd=tmp_path,
                           env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 120
        while not Home(tmp_path / "mine").store.exists():
            assert app.poll() is None and time.monotonic() < until, "the app opened no store here"
            time.sleep(0.1)
    finally:
        app.kill()
        app.communicate()
