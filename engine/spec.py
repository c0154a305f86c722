"""A sweep as it is asked for: experiment, grid, fixed values, repeats, order; from YAML or Python, into cells."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine import registry
from engine.params import InputError, Params, cell_key, explain, shorten, suggestion

MANY_RUNS = 2_000
"""More runs than this are asked about before anything is started."""


class Limits(BaseModel):
    """When a run is given up."""

    model_config = ConfigDict(extra="forbid", strict=True)
    run_s: float = Field(default=3600.0, gt=0, le=7 * 86400, title="Time limit of one run", description="seconds")
    silence_s: float = Field(default=300.0, gt=0, le=86400, title="Longest silence",
                             description="seconds without a finished batch or stage before a run counts as hung")


class SweepSpec(BaseModel):
    """One launch. `grid` spans the cells, `fixed` holds what all of them share."""

    model_config = ConfigDict(extra="forbid", strict=True)
    experiment: str = Field(description="name one, for example experiment: inference")
    name: str = Field("", max_length=200)
    notes: str = Field("", max_length=20_000)
    tags: list[str] = Field(default_factory=list, max_length=50)
    grid: dict[str, list[Any]] = Field(
        description="list at least one parameter with its values, for example grid: {batch_size: [32, 128]}")
    fixed: dict[str, Any] = Field(default_factory=dict)
    repeats: int = Field(1, ge=1, le=1000)
    order: Literal["random", "as_listed"] = "random"
    order_seed: int = Field(0, ge=0, description="shuffles the runs when the order is random")
    executor: Literal["local"] = "local"
    limits: Limits = Limits()

    @field_validator("tags")
    @classmethod
    def _single_tags(cls, tags: list[str]) -> list[str]:
        return list(dict.fromkeys(tag for entry in tags for tag in split_tags(entry)))

    @property
    def number_of_runs(self) -> int:
        """Counted without making the cells: a grid may be absurdly large."""
        return math.prod(len(values) for values in self.grid.values()) * self.repeats


def split_tags(text: str) -> list[str]:
    """`a, b` are two tags."""
    return list(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip()[:200])))


class Cell(NamedTuple):
    key: str
    params: Params


class PlannedRun(NamedTuple):
    cell: Cell
    repeat: int


def read_spec(file: Path) -> SweepSpec:
    """A sweep from a YAML file, or one sentence about what is wrong with it."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; give the path of a sweep's YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({error}); give the path of a sweep's YAML file") from None
    return parse_spec(text, str(file))


def parse_spec(text: str, source: str = "the sweep") -> SweepSpec:
    try:
        content = yaml.load(text, PlainLoader)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise InputError(f"{source}: is not YAML{where}; check the indentation and brackets there") from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # PyYAML lets these through for values such as 2026-99-99 or keys that are lists.
        raise InputError(f"{source}: holds a value that cannot be read ({error}); correct it") from None
    if not isinstance(content, dict):
        raise InputError(f"{source}: must hold entries such as `experiment: inference` and `grid: ...`")
    return make_spec(content)


class PlainLoader(yaml.SafeLoader):
    """Plain values only. No aliases, which can make a small file endless, and no key twice, which loses the first."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise InputError("uses an alias (*name); write the values out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, count in keys.items() if count > 1]:
            raise InputError(f"{shorten(twice[0])} is there twice; keep one of them")
        return super().construct_mapping(node, deep)


def make_spec(content: dict[str, Any]) -> SweepSpec:
    """A checked sweep from plain values. The experiment's parameters are checked too, each value by itself."""
    for name in content:
        if name not in SweepSpec.model_fields:
            known = list(SweepSpec.model_fields)
            raise InputError(f"{shorten(name)}: a sweep has no such entry{suggestion(str(name), known)} "
                             f"(it has {', '.join(known)})")
    if content.get("grid") in (None, {}, []):
        raise InputError("grid: is empty; " + str(SweepSpec.model_fields["grid"].description))
    if isinstance(content["grid"], dict):
        for name, values in content["grid"].items():
            if values is None or values == {}:
                raise InputError(f"grid.{name}: is empty; give it at least one value or leave it out")
            if not isinstance(values, list):
                raise InputError(f"grid.{name}={shorten(values)}: must be a list of values; write [{shorten(values)}], "
                                 "or move it to `fixed`")
    try:
        spec = SweepSpec.model_validate(content)
    except ValidationError as error:
        inner = error.errors()[0]
        if inner["loc"][0] == "limits":
            name = ".".join(map(str, inner["loc"]))
            raise InputError(f"{name}={shorten(inner['input'])}: limits has run_s (up to a week) and silence_s (up to "
                             "a day), both in seconds and more than 0") from None
        raise InputError(explain(error, SweepSpec, "a sweep")) from None
    _check_values(spec, registry.find(spec.experiment))
    return spec


def _check_values(spec: SweepSpec, experiment: registry.Experiment) -> None:
    """Each value alone against its field, so that a wrong one is named before the cells are multiplied out.

    The values are kept as the field understood them: a relative path, say, as a whole one.
    """
    fields = experiment.Params.model_fields
    for name in [*spec.grid, *spec.fixed]:
        if name not in fields:
            raise InputError(f"{name}: {experiment.name} has no such parameter{suggestion(name, list(fields))} "
                             f"(it has {', '.join(fields)})")
    for name, values in spec.grid.items():
        if not values:
            raise InputError(f"grid.{name}: is empty; give it at least one value or leave it out")
        spec.grid[name] = [check_value(experiment, name, value) for value in values]
    for name, value in spec.fixed.items():
        spec.fixed[name] = check_value(experiment, name, value)
    if both := [name for name in spec.grid if name in spec.fixed]:
        raise InputError(f"{both[0]}: is in both grid and fixed; keep one of them")


def check_value(experiment: registry.Experiment, name: str, value: Any) -> Any:
    """One value against one field, whatever the others are: `batch_size=0: must be 1 to 65536`."""
    try:
        params = experiment.Params.model_validate({name: value})
    except ValidationError as error:
        if any(problem["loc"] and problem["loc"][0] == name for problem in error.errors()):
            raise InputError(explain(error, experiment.Params, experiment.name)) from None
        return value  # wrong only together with the defaults of others: the cell decides
    return params.model_dump(mode="json")[name]


def make_cells(spec: SweepSpec) -> list[Cell]:
    """Every point of the grid, in listed order."""
    experiment = registry.find(spec.experiment)
    cells: dict[str, Cell] = {}
    for values in itertools.product(*spec.grid.values()):
        point = dict(zip(spec.grid, values, strict=True))
        try:
            params = experiment.Params.model_validate({**spec.fixed, **point})
        except ValidationError as error:
            raise InputError(explain(error, experiment.Params, experiment.name)
                             + f" (in the cell {describe(point)})") from None
        key = cell_key(experiment.name, params)
        if key in cells:
            raise InputError(f"grid: the cell {describe(point)} is there twice; remove the repeated value "
                             "and use `repeats` to measure a cell more than once")
        cells[key] = Cell(key, params)
    return list(cells.values())


def plan_runs(cells: list[Cell], repeats: int, order: str, order_seed: int) -> list[PlannedRun]:
    """Repeat by repeat, each repeat a complete pass over the cells: slow drift then touches all cells alike."""
    shuffler = random.Random(order_seed)
    planned = []
    for repeat in range(1, repeats + 1):
        one_pass = list(cells)
        if order == "random":
            shuffler.shuffle(one_pass)
        planned += [PlannedRun(cell, repeat) for cell in one_pass]
    return planned


def describe(point: dict[str, Any]) -> str:
    return ", ".join(f"{name}={shorten(value)}" for name, value in point.items())
