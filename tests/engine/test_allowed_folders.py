"""A browser names folders below the allowed ones only, whatever way it tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.allowed_folders import check_folder, check_spec_folders
from engine.home import Home
from engine.params import InputError
from engine.registry import find
from engine.spec import make_spec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    (tmp_path / "lab" / "data" / "cats").mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures-of-others").mkdir()
    (tmp_path / "lab" / "data" / "way_out").symlink_to(tmp_path / "pictures-of-others")
    monkeypatch.setenv("PHASELAB_DATA", str(tmp_path / "pictures"))
    return Home(tmp_path / "lab")


@pytest.mark.parametrize("inside", ["generated", "imagenette", "lab/data/cats", "lab/data", "pictures/dogs"])
def test_named_sets_and_allowed_folders_pass(home: Home, tmp_path: Path, inside: str) -> None:
    value = inside if "/" not in inside else str(tmp_path / inside)
    check_folder(find("inference"), "data", value, home)


@pytest.mark.parametrize("outside", ["/etc", "lab/data/../../pictures-of-others", "pictures-of-others",
                                     "lab/data/way_out", "lab/data/way_out/x", "lab"])
def test_every_way_out_is_refused(home: Home, tmp_path: Path, outside: str) -> None:
    value = outside if outside.startswith("/") else str(tmp_path / outside)
    with pytest.raises(InputError, match="PHASELAB_DATA"):
        check_folder(find("inference"), "data", value, home)


def test_a_sweep_is_checked_in_grid_and_fixed(home: Home) -> None:
    for place in ({"grid": {"data": ["generated", "/etc"]}}, {"grid": {"seed": [1]}, "fixed": {"data": "/etc"}}):
        with pytest.raises(InputError, match="/etc"):
            check_spec_folders(make_spec({"experiment": "inference", **place}), find("inference"), home)
