"""A moving chart keeps its specification while only numbers move, and holds the rows beside it."""

from __future__ import annotations

import pyarrow as pa

from analysis.cells import RunTimes, time_cells
from ui.charts import batch_bars, batch_frame, cell_bars, cell_frame, telemetry_frame, telemetry_lines
from ui.moving import NAME, moving


def batches(seconds: float, phases: tuple[str, ...] = ("load_data", "inference")) -> list[dict[str, object]]:
    return [{"batch": batch, "phase": phase, "seconds": seconds} for batch in range(3) for phase in phases]


def test_new_numbers_keep_the_specification_and_change_the_rows() -> None:
    first, second = (moving(batch_bars, batch_frame(batches(seconds))) for seconds in (0.1, 0.2))
    assert first.spec is second.spec and first.rows != second.rows
    assert pa.ipc.open_stream(second.rows).read_all().column("milliseconds").to_pylist() == [200.0] * 6


def test_a_new_phase_makes_a_new_one_and_a_new_cell_does_not() -> None:
    two, three = (moving(batch_bars, batch_frame(batches(0.1, phases)))
                  for phases in (("load_data", "inference"), ("load_data", "forward", "backward")))
    assert two.spec != three.spec
    one, both = (moving(cell_bars, cell_frame(time_cells([RunTimes(cell, 1.0, 1.0, {"inference": 0.5})
                                                          for cell in cells]))) for cells in ("a", "ab"))
    assert one.spec is both.spec and one.rows != both.rows


def test_every_layer_reads_the_named_rows_or_its_own_small_table() -> None:
    rows = [{"time_s": 0.2 * n, "device": "cpu", "value": 1.0} for n in range(3)]
    spec = moving(telemetry_lines, telemetry_frame(rows, 1.0), "CPU (cores)", 2.0).spec
    assert spec["data"] == {"name": NAME} and "datasets" not in spec
    assert [layer.get("data", {}).get("values") for layer in spec["layer"]] == [None, [{"full": 2.0}]]


def test_no_rows_draw_as_an_empty_chart() -> None:
    assert len(moving(cell_bars, cell_frame([])).spec["layer"]) == 5
    assert moving(telemetry_lines, telemetry_frame([], 1.0), "CPU (cores)", 2.0).spec["layer"]
    assert moving(batch_bars, batch_frame([])).spec["encoding"]
