"""A CSV file of measurements made elsewhere: read and checked whole, or one sentence with the line that is wrong.

One row per run. Columns are the experiment's parameters, `repeat` if wanted, and measured figures: names that end in
_s, _bytes or _per_s, or one of the names without a unit. Rows with the same parameters are repeats of one cell. Rows
that agree in everything are taken for a row that was copied twice, unless a `repeat` column tells them apart.
"""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from engine.params import InputError, allowed_values, cell_key, explain, shorten, suggestion
from engine.registry import Experiment
from engine.spec import Cell

MOST_BYTES = 32 * 2**20
MOST_ROWS = 100_000
MOST_COLUMNS = 200
UNITS = {"_per_s": "per s", "_bytes": "bytes", "_s": "s"}
"""Endings of measured columns, the longest first."""
WITHOUT_UNIT = ("accuracy", "loss", "top1", "top5", "score", "items", "batches_measured", "max_batch_size", "speedup",
                "efficiency", "count", "ratio")
"""Measured columns that need no unit. A short list: a mistyped parameter must not become a measurement."""
SIGNED = ("loss", "score")
"""Of all measured columns these alone may be negative: counts, sizes, times and shares never are."""
REPEAT = "repeat"
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}", re.ASCII)


class Measurement(NamedTuple):
    """One run of the file."""

    line: int
    cell: Cell
    repeat: int
    figures: dict[str, float]


class MeasurementFile(NamedTuple):
    parameters: list[str]
    measured: list[str]
    rows: list[Measurement]


def unit_of(column: str) -> str:
    ending = next((ending for ending in UNITS if column.endswith(ending)), "")
    return f"{column.removesuffix(ending).rpartition('_')[2]}/s" if ending == "_per_s" else UNITS.get(ending, "")


def read_measurements(content: bytes, source: str, experiment: Experiment) -> MeasurementFile:
    """Everything in the file, or an InputError that names the file and the line."""
    if len(content) > MOST_BYTES:
        raise InputError(f"{source}: has {len(content):,} bytes, more than {MOST_BYTES:,}; cut it into several files")
    reader = _Lines(_decode(content, source), source)
    header = next(reader, None)
    if header is None:
        raise InputError(f"{source}: is empty; give a heading such as batch_size,workers,end_to_end_s and rows below")
    names = [name.strip() for name in header[1]]
    parameters, measured = _check_header(names, f"{source} line {header[0]}", experiment)
    rows: list[tuple[int, Cell, str | None, dict[str, float]]] = []
    for line, values in reader:
        where = f"{source} line {line}"
        if len(values) != len(names):
            raise InputError(f"{where}: has {len(values)} values under {len(names)} headings; correct the row")
        if len(rows) == MOST_ROWS:
            raise InputError(f"{where}: more than {MOST_ROWS:,} rows; cut the file into several")
        given = dict(zip(names, (value.strip() for value in values), strict=True))
        rows.append((line, _read_cell(given, parameters, where, experiment), given.get(REPEAT),
                     _read_figures(given, measured, where)))
    if not rows:
        raise InputError(f"{source}: has a heading and no rows; nothing to import")
    return MeasurementFile(parameters, measured, _number_repeats(rows, source))


class _Lines:
    """Rows of a CSV text with the line each begins on; empty lines are passed over."""

    def __init__(self, text: str, source: str) -> None:
        self._reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        self._source = source

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        while True:
            line = self._reader.line_num + 1
            try:
                values = next(self._reader)
            except csv.Error as error:
                raise InputError(f"{self._source} line {line}: is not CSV ({error}); check its quotes") from None
            if any(value.strip() for value in values):
                return line, values


def _decode(content: bytes, source: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{source} line 1: is UTF-16; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{source} line {line}: is not UTF-8 (byte {content[error.start]:#04x}); save it as UTF-8") \
            from None
    if "\0" in text:
        line = text[: text.index(chr(0))].count("\n") + 1
        raise InputError(f"{source} line {line}: holds a zero byte, so it is no text file; save it as CSV in UTF-8")
    return text


def _check_header(names: list[str], where: str, experiment: Experiment) -> tuple[list[str], list[str]]:
    known = list(experiment.Params.model_fields)
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{where}: {len(names)} columns are more than {MOST_COLUMNS}; leave out what is not measured")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise InputError(f"{where}: its columns are not separated by commas; save it with commas between the columns")
    for number, name in enumerate(names):
        if not name:
            raise InputError(f"{where}: column {number + 1} has no name; name it or remove it")
        if name in names[:number]:
            raise InputError(f"{where}: column {shorten(name)} is there twice; keep one of them")
        if name not in known and name != REPEAT and not is_measured(name):
            raise InputError(f"{where}: column {shorten(name)} is unknown{suggestion(name, [*known, *WITHOUT_UNIT])}; "
                             f"{experiment.name} has {', '.join(known)}, and measured columns end in _s, _bytes or "
                             f"_per_s or are one of {', '.join(WITHOUT_UNIT)}")
    measured = [name for name in names if name not in known and name != REPEAT]
    if not measured:
        raise InputError(f"{where}: has no measured column; add one such as end_to_end_s")
    return [name for name in names if name in known], measured


def is_measured(name: str) -> bool:
    return name in WITHOUT_UNIT or (bool(NAME.fullmatch(name)) and name.endswith(tuple(UNITS)) and name not in UNITS)


def _read_cell(given: dict[str, str], parameters: list[str], where: str, experiment: Experiment) -> Cell:
    fields = experiment.Params.model_fields
    values = {name: _parse(given[name], fields[name].annotation) for name in parameters}
    for name, value in values.items():
        if value == "":
            raise InputError(f"{where}: {name} is empty; {allowed_values(fields[name])}")
    try:
        params = experiment.Params.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, experiment.Params, experiment.name)}") from None
    return Cell(cell_key(experiment.name, params), params)


def _parse(text: str, annotation: Any) -> Any:
    """Text as the parameter's type means it; what does not fit stays text, and the parameter says what it takes."""
    kinds = str(annotation)
    if text == "" and "None" in kinds:
        return None
    if "bool" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if NUMBER.fullmatch(text) and len(text) < 40:
        number = float(text)
        if "float" in kinds and math.isfinite(number):
            return number
        # Tables that had empty cells write 32.0 for 32.
        if "int" in kinds and number.is_integer():
            return int(text) if text.lstrip("+-").isdigit() else int(number)
    return text


def _read_figures(given: dict[str, str], measured: list[str], where: str) -> dict[str, float]:
    figures = {}
    for name in measured:
        text = given[name]
        if not text:
            continue  # not measured in this run
        if not NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
            raise InputError(f"{where}: {name}={shorten(text)}: must be a number; write it like 12.5, or leave it "
                             "empty if it was not measured")
        if value < 0 and name not in SIGNED:
            raise InputError(f"{where}: {name}={shorten(text)}: must not be negative; correct it or leave it empty")
        if value == 0 and name == "end_to_end_s":
            raise InputError(f"{where}: {name}={shorten(text)}: must be more than 0; leave it empty if it was not "
                             "measured")
        figures[name] = value
    if not figures:
        raise InputError(f"{where}: measures nothing: {', '.join(measured)} are all empty; remove the row or fill it")
    return figures


def _number_repeats(rows: list[tuple[int, Cell, str | None, dict[str, float]]], source: str) -> list[Measurement]:
    numbered: list[Measurement] = []
    seen: dict[Any, int] = {}
    count: dict[str, int] = {}
    for line, cell, given, figures in rows:
        repeat = count[cell.key] = count.get(cell.key, 0) + 1
        same: Any = (cell.key, tuple(sorted(figures.items())))
        remedy = "remove one of them, or tell them apart with a column repeat (1, 2, ...)"
        if given is not None:
            if not re.fullmatch(r"[1-9]\d{0,5}", given, re.ASCII):
                raise InputError(f"{source} line {line}: repeat={shorten(given)}: must be 1, 2, 3 and so on")
            repeat, same = int(given), (cell.key, int(given))
            remedy = "give each row of a cell its own repeat"
        if same in seen:
            raise InputError(f"{source} line {line}: the same run as line {seen[same]}; {remedy}")
        seen[same] = line
        numbered.append(Measurement(line, cell, repeat, figures))
    return numbered
