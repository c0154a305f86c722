"""A lab of its own for each test: real folders, real processes, the real command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from driven_lab import Lab
from hypothesis import HealthCheck, settings

from engine.home import PROJECT, Home
from engine.launch import wait_until_ended
from engine.sweep_state import process_alive, read_process

# How fast examples are made depends on what else the machine does: no test here is about that.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def image_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated images are made once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def lab(tmp_path: Path, image_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    home = Home(tmp_path / "lab")
    changes = {
        "PHASELAB_HOME": str(home.root),
        "PHASELAB_EXPERIMENTS": str(PROJECT / "tests" / "experiments"),
        # Tests of this lab do not wait for a measurement that someone runs on the same machine.
        "PHASELAB_MACHINE_LOCK": str(tmp_path / "machine.lock"),
    }
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    lab = Lab(home, {**os.environ, **changes})
    yield lab
    for sweep_id in home.sweep_ids():
        if process_alive(folder := home.sweep(sweep_id)):
            os.kill(read_process(folder)["pid"], 9)
            wait_until_ended(folder, 10)


@pytest.fixture
def images(lab: Lab, image_cache: Path) -> Path:
    """The lab shares the session's generated images."""
    lab.home.root.mkdir(parents=True, exist_ok=True)
    lab.home.cache.symlink_to(image_cache)
    return image_cache
