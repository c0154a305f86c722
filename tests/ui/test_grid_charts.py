"""A grid drawn: what is stacked is what the axis says, and published figures stand beside their like only."""

from __future__ import annotations

from statistics import median

import pandas as pd
import pytest

from analysis.comparison import Estimate, estimate
from analysis.grid_view import CellTime, GridView, cell_times, view_grid
from analysis.grids import GridRun, Pair, split_grids
from ui.grid_charts import BAR_COLUMNS, bar_frame, first_frame, first_lines, phase_bars, phase_frame, time_scale
from ui.grid_findings import about_family
from ui.regret_tables import regret_frame

PAIR = Pair(32, 2)


def view_of(per_item: bool, experiment: str = "inference", format: str = "jpeg") -> GridView:
    runs = [GridRun(f"r{number}", "ok", "", None, "here",
                    {"model": "m", "batch_size": 32, "workers": 2, "format": format}, 10.0 * number, None,
                    100.0 * number, {"load_data": 4.0 * number}, experiment)
            for number in (1, 2)]
    (grid,) = split_grids(runs, {})
    return view_grid(grid, ["m"], 3, per_item)


@pytest.mark.parametrize(("per_item", "load_data", "rest", "title"), [
    (False, 6.0, 9.0, "Mean end-to-end time (s)"), (True, 40.0, 60.0, "Mean time per image, end to end (ms)")])
def test_stacked_phases_are_in_the_unit_of_the_axis(per_item: bool, load_data: float, rest: float, title: str) -> None:
    view, scale = view_of(per_item), time_scale(per_item)
    frame = phase_frame(view, cell_times(view, ["m"], [PAIR]), scale)
    assert dict(zip(frame["phase"], frame["time"], strict=True)) == pytest.approx(
        {"load_data": load_data, "unaccounted": rest})
    assert phase_bars(frame, scale, 100).to_dict()["encoding"]["x"]["title"] == title


def test_no_cells_make_frames_with_named_columns() -> None:
    view = view_of(per_item=False)
    assert list(bar_frame([], "workers", "model", time_scale(False)).columns) == BAR_COLUMNS
    assert phase_bars(phase_frame(view, [], time_scale(False)), time_scale(False), 1).to_dict()["encoding"]


@pytest.mark.parametrize(("experiment", "format", "beside"), [
    ("inference", "jpeg", 0.5), ("inference", "tensor_files", 0.25), ("inference", "memmap", None),
    ("finetune", "jpeg", None), ("loading", "tensor_files", None)])
def test_published_regret_stands_beside_its_like_only(experiment: str, format: str, beside: float | None) -> None:
    published = pd.DataFrame([{"data": data, "batch_size": 32, "workers": 2, "mean_regret": regret, "top3_count": 1}
                              for data, regret in (("imagenette", 0.5), ("preprocessed_ssd", 0.25))])
    frame = regret_frame(view_of(False, experiment, format), published, 3)
    assert (frame["published_regret"][0] / 100 if "published_regret" in frame else None) == beside


def test_what_makes_the_first_place_unsure_goes_with_the_sentence() -> None:
    def cell(workers: int, times: list[float], noisy: int = 0) -> CellTime:
        return CellTime("m", Pair(32, workers), median(times), estimate(times), noisy)

    sure = about_family([cell(0, [1.0, 1.01, 1.02]), cell(1, [3.0, 3.01, 3.02])], "workers", False)
    assert sure.startswith("m comes out fastest with batch size 32 and 0 workers: median 1.01 s (95 % interval")
    assert sure.endswith("3 runs).")
    unsure = about_family([cell(0, [1.0, 3.0], 2), cell(1, [2.0, 4.0], 1)], "workers", False)
    assert "too far apart for an interval of use" in unsure
    assert unsure.endswith("Its interval overlaps those of 1 of 1 other cells. 3 of 4 runs were noisy.")


def test_a_wide_interval_does_not_stretch_the_axis_of_first_batches() -> None:
    frame = first_frame({Pair(8, 0): Estimate(0.1, 0.09, 0.12, 3), Pair(8, 1): Estimate(0.5, 1e-6, 600.0, 2)})
    (top,) = {layer["encoding"]["y"]["scale"]["domain"][1] for layer in first_lines(frame).to_dict()["layer"]
              if "scale" in layer["encoding"]["y"]}
    assert top == pytest.approx(750)
