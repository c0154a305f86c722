"""An empty lab for each of the store's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "lab")
