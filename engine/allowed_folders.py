"""Which folders a browser may name: a form that anyone can reach must not read the whole disk.

The command line may name any folder: who has a shell can read it anyway.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.home import Home
from engine.params import InputError, shorten
from engine.registry import Experiment
from engine.spec import SweepSpec

VARIABLE = "PHASELAB_DATA"


def allowed_folders(home: Home) -> list[Path]:
    """`data/` inside the lab's folder, and what PHASELAB_DATA names (several are separated like those in PATH)."""
    named = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [Path(os.path.realpath(folder)) for folder in (str(home.root / "data"), *named)]


def is_folder(experiment: Experiment, name: str) -> bool:
    extra: Any = experiment.Params.model_fields[name].json_schema_extra or {}
    return bool(extra.get("folder"))


def check_folder(experiment: Experiment, name: str, value: Any, home: Home) -> None:
    """A folder that a form names must lie, after every link and `..`, in one that was allowed."""
    extra: Any = experiment.Params.model_fields[name].json_schema_extra or {}
    if not is_folder(experiment, name) or value in extra.get("options", []):
        return
    real, allowed = Path(os.path.realpath(str(value))), allowed_folders(home)
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise InputError(f"{name}={shorten(value)}: from the browser only folders below "
                         f"{' or '.join(map(str, allowed))} can be named; put the data there, or start the app "
                         f"with {VARIABLE} set to the folder that holds it")


def check_spec_folders(spec: SweepSpec, experiment: Experiment, home: Home) -> None:
    for name, values in [*spec.grid.items(), *((name, [value]) for name, value in spec.fixed.items())]:
        for value in values:
            check_folder(experiment, name, value, home)
