"""Sweeps to start from: the studies' own grids, and some that fit themselves to this machine.

A preset is a plain sweep file. One whose name ends in -gpu takes the place of its namesake on a machine with a GPU, and
the ones named in SIZED leave out worker counts that this machine has no cores for.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.home import PROJECT
from engine.spec import SweepSpec, read_spec

FOLDER = PROJECT / "presets"
SIZED = ("tour", "this-machine")
GPU = "-gpu"


class Preset(NamedTuple):
    name: str
    spec: SweepSpec


def list_presets(cores: float, gpu: bool) -> dict[str, Preset]:
    """By name, the ones for this machine first."""
    names = {path.stem.removesuffix(GPU) for path in FOLDER.glob("*.yaml")}
    ordered = [name for name in SIZED if name in names] + sorted(names - set(SIZED))
    return {name: Preset(name, read_preset(name, cores, gpu)) for name in ordered}


def read_preset(name: str, cores: float, gpu: bool) -> SweepSpec:
    for_gpu = FOLDER / f"{name}{GPU}.yaml"
    spec = read_spec(for_gpu if gpu and for_gpu.exists() else FOLDER / f"{name}.yaml")
    return fit(spec, cores) if name in SIZED else spec


def fit(spec: SweepSpec, cores: float) -> SweepSpec:
    """Without the worker counts above the cores: more of them than cores measures the scheduler."""
    few = [count for count in spec.grid.get("workers", []) if count <= max(cores, 2)]
    return spec.model_copy(update={"grid": {**spec.grid, "workers": few}}) if few else spec
