"""Taking a sweep away: the same values in CSV and Parquet, and no cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet
from driven_lab import Lab

from engine.home import Home
from engine.journal import Metric, Samples, Stage
from store.database import Store
from store.export import TABLES, export_sweep
from tests.store.journal_builder import Script, Step

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=HYPERLINK(\"http://x\", \"y\")", "-", "="]


Exported = tuple[list[dict[str, str]], list[dict[str, Any]]]
"""The CSV's rows as text, and the Parquet file's as values."""


def export(script: Script, tmp_path: Path) -> Exported:
    script.write()
    with Store.in_memory(Home(script.folder.path.parent.parent), [script.sweep_id]) as store:
        return export_from(store, script.sweep_id, tmp_path, "runs")


def export_from(store: Store, sweep_id: str, tmp_path: Path, table: str) -> Exported:
    count = export_sweep(store.connection, sweep_id, table, "csv", tmp_path / "out.csv")
    assert export_sweep(store.connection, sweep_id, table, "parquet", tmp_path / "out.parquet") == count
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab", "out.csv", "out.parquet"]
    header, *lines = read_csv(tmp_path / "out.csv")
    in_csv = [dict(zip(header, line, strict=True)) for line in lines]
    in_parquet = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(in_csv) == len(in_parquet) == count
    return in_csv, in_parquet


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def small_sweep(home: Home) -> Script:
    script = Script(home).begin(planned_runs=3)
    script.run(0, workers=2, batches=7, effective={"workers": 1}, metrics={"loss": "nan", "ratio": "-inf"})
    script.run(1, status="failed", reason='said "no", and\nleft')
    script.skip(2, "")
    return script.end()


def test_one_row_per_run_round_trips(home: Home, tmp_path: Path) -> None:
    in_csv, in_parquet = export(small_sweep(home), tmp_path)
    assert list(in_csv[0]) == list(in_parquet[0])
    for text, row in zip(in_csv, in_parquet, strict=True):
        for name, value in row.items():
            assert same(text[name], value), (name, text[name], value)
    first, second, third = in_parquet
    assert (first["seed"], first["workers"], first["workers_in_effect"], first["threads_in_effect"]) == (0, 2, 1, 2)
    assert math.isnan(first["loss"])
    assert first["ratio"] == -math.inf
    assert first["load_data_median_s"] > 0
    assert second["reason"] == 'said "no", and\nleft'
    assert second["end_to_end_s"] is None
    assert third["inference_median_s"] is None


def same(text: str, value: Any) -> bool:
    """Whether a CSV cell says this value."""
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, float):
        return float(text) == value or (math.isnan(float(text)) and math.isnan(value))
    if isinstance(value, int):
        return int(text) == value
    return text.startswith(str(value))


def test_raw_tables_round_trip(home: Home, tmp_path: Path) -> None:
    script = small_sweep(home).write()
    counts = {"stages": 7, "batches": 11, "phases": 33, "samples": 20, "metrics": 17}
    assert counts.keys() == set(TABLES) - {"runs"}
    with Store.in_memory(home, [script.sweep_id]) as store:
        for table, rows in counts.items():
            in_csv, in_parquet = export_from(store, script.sweep_id, tmp_path, table)
            assert len(in_csv) == rows, table
            for text, row in zip(in_csv, in_parquet, strict=True):
                assert all(same(text[name], value) for name, value in row.items()), table


def test_text_that_looks_like_a_formula_is_made_harmless(home: Home, tmp_path: Path) -> None:
    script = Script(home).begin(planned_runs=len(FORMULAS))
    for cell, text in enumerate(FORMULAS):
        script.run(cell, status="failed", reason=text, asked={"data": text}, batches=1, flushes=1)
    in_csv, in_parquet = export(script.end(), tmp_path)
    for text, row, original in zip(in_csv, in_parquet, FORMULAS, strict=True):
        assert text["reason"] == text["data"] == "'" + original
        # Only a spreadsheet takes text for a formula.
        assert row["reason"] == row["data"] == original


def test_names_of_columns_are_made_harmless_too(home: Home, tmp_path: Path) -> None:
    script = Script(home).begin()
    script.run(0, metrics={"=cmd": 1.0}, asked={"@there": 2})
    export(script.end(), tmp_path)
    header = read_csv(tmp_path / "out.csv")[0]
    assert {"'=cmd", "'@there"} <= set(header)


def test_negative_numbers_stay_numbers(home: Home, tmp_path: Path) -> None:
    script = Script(home).begin(planned_runs=2)
    script.run(0, asked={"shift": -3, "scale": -0.5}, metrics={"gain": -2.25})
    script.run(1, asked={"shift": 4, "scale": 1}, metrics={"gain": 1e-300})
    in_csv, in_parquet = export(script.end(), tmp_path)
    assert [(row["shift"], row["scale"], row["gain"]) for row in in_csv] == [
        ("-3", "-0.5", "-2.25"), ("4", "1", "1e-300")]
    assert [(row["shift"], row["scale"], row["gain"]) for row in in_parquet] == [(-3, -0.5, -2.25), (4, 1.0, 1e-300)]


MIXED: list[list[Any]] = [
    [1, "auto", None], ["auto", 2.5, 3], [True, 3, 0], [None, "x", 1], [True, "yes", None], [[1, 2], 3, "4"],
    [{"a": 1}, None, "b"], [1, 2.5, None], [2**53 + 1, 0.5, 1], [2**70, 1, None], [None, None, None],
    [True, False, None], [-1, "-1", 1e300]]


def test_parameters_of_mixed_types(home: Home, tmp_path: Path) -> None:
    script = Script(home).begin(planned_runs=3)
    for cell in range(3):
        script.run(cell, asked={f"odd_{number}": values[cell] for number, values in enumerate(MIXED)}, batches=1)
    in_csv, in_parquet = export(script.end(), tmp_path)
    for number, values in enumerate(MIXED):
        for text, row, value in zip(in_csv, in_parquet, values, strict=True):
            found = row[f"odd_{number}"]
            assert (found is None) == (value is None), values
            assert same(text[f"odd_{number}"].removeprefix("'"), found), values
            if value is not None and not isinstance(value, list | dict):
                assert str(found).lower() in (str(value).lower(), f"{value}.0"), "the value survives"


def test_what_was_asked_is_not_overwritten_by_what_was_measured(home: Home, tmp_path: Path) -> None:
    """`batches` is a parameter of an experiment and a metric of every run."""
    script = Script(home).begin(planned_runs=2)
    script.run(0, asked={"batches": 100}, batches=4)
    script.run(1, asked={"batches": 100}, batches=4, status="cancelled")
    _, in_parquet = export(script.end(), tmp_path)
    assert [row["batches"] for row in in_parquet] == [100, 100]
    assert 4 in in_parquet[0].values()


def test_a_sweep_without_runs(home: Home, tmp_path: Path) -> None:
    script = Script(home).begin(planned_runs=2)
    for table in TABLES:
        folder = tmp_path / table
        folder.mkdir()
        with Store.in_memory(Home(script.folder.path.parent.parent), []) as store:
            assert export_sweep(store.connection, script.sweep_id, table, "csv", folder / "out.csv") == 0
            assert export_sweep(store.connection, script.sweep_id, table, "parquet", folder / "out.parquet") == 0
        assert [line[0] for line in read_csv(folder / "out.csv")] == ["run_id"], table
        assert pyarrow.parquet.read_table(folder / "out.parquet").num_rows == 0


def test_odd_text_round_trips(home: Home, tmp_path: Path) -> None:
    odd = "a,b;\"c\"\nd\r\ne \x00 漢字 🧪 <script>"
    script = Script(home).begin()
    run_id = script.run(0, status="failed", reason=odd, asked={"data": odd, odd: 1})
    script.steps.append(Step(script.folder.run_journal(run_id, 1), [Metric(run_id, odd, 1.0, odd),
                                                                    Stage(run_id, odd, 0.0, 1.0)]))
    script.say(Samples(run_id, 0.0, [(odd, odd, 1.0)]))
    in_csv, in_parquet = export(script.end(), tmp_path)
    assert (in_parquet[0]["reason"], in_parquet[0]["data"]) == (odd, odd)
    assert (in_csv[0]["reason"], in_csv[0]["data"]) == (odd, odd)


def test_the_command_writes_a_file_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    script = small_sweep(lab.home).write()
    out = tmp_path / "runs.csv"
    code, said, err = lab.call("export", script.sweep_id, "--format", "csv", "--out", str(out), "--table", "phases")
    assert (code, said, err) == (0, f"33 rows in {out}\n", "")
    assert len(read_csv(out)) == 34
