"""What limits a cell, from phases whose shares are known, and the step that follows from its neighbours."""

from __future__ import annotations

import pytest

from analysis.grids import NOT_BEGUN, Grid, GridRun, Pair, split_grids
from analysis.limits import Kind, Limit, find_limit, next_step
from engine.registry import default_values


def run(pair: Pair, whole: float, first: float, number: int = 0, **phases: float) -> GridRun:
    return GridRun(f"{pair}-{number}", "ok", "", None, "here",
                   {"model": "m", "batch_size": pair.batch_size, "workers": pair.workers}, whole, first, None, phases)


PAIR = Pair(32, 2)


@pytest.mark.parametrize(("phases", "first", "kind", "share"), [
    ({"load_data": 7.0, "data_to_device": 1.0, "inference": 2.0}, 1.0, "loading", 0.6),
    ({"load_data": 7.0, "data_to_device": 1.0, "inference": 2.0}, 5.0, "start-up", 0.5),
    ({"load_data": 1.0, "data_to_device": 6.0, "inference": 3.0}, 0.5, "transfer", 0.6),
    ({"load_data": 1.0, "data_to_device": 1.0, "forward": 4.0, "backward": 4.0}, 0.5, "compute", 0.8),
    ({"load_data": 1.0, "inference": 2.0}, 0.5, "other work", 0.7)])
def test_the_largest_share_is_the_limit(phases: dict[str, float], first: float, kind: str, share: float) -> None:
    limit = find_limit([run(PAIR, 10.0, first, **phases)], 2, {})
    assert (limit.kind, limit.share) == (kind, pytest.approx(share))


def test_without_workers_the_first_wait_is_loading() -> None:
    limit = find_limit([run(Pair(32, 0), 10.0, 5.0, load_data=7.0, inference=3.0)], 0, {})
    assert limit.kind == "loading" and limit.share == pytest.approx(0.7)


def test_the_waits_of_the_median_run_are_the_evidence() -> None:
    runs = [run(PAIR, 10.0 + number, 1.0, number, load_data=8.0, inference=2.0) for number in range(3)]
    spiky, even = [1.0, 0, 0.5, 0, 0.5, 0, 0.5, 0], [1.0] + [0.01] * 7
    limit = find_limit(runs, 2, {runs[0].run_id: even, runs[1].run_id: spiky, runs[2].run_id: even})
    assert limit.signature and limit.signature.verdict == "loading-bound" and limit.runs == 3


def test_runs_without_phases_have_no_known_limit() -> None:
    limit = find_limit([run(PAIR, 10.0, 1.0)], 2, {})
    assert limit.kind == "unknown" and limit.share is None


def grid_with(times: dict[Pair, list[float]], cores: float | None = None, experiment: str = "inference",
              **setting: object) -> Grid:
    runs = [run(pair, value, 0.1, number, load_data=value * 0.9, inference=value * 0.1)
            for pair, values in times.items() for number, value in enumerate(values)]
    (grid,) = split_grids([one._replace(cores=cores) for one in runs], {"": {**default_values(experiment), **setting}})
    return grid


def advice(kind: Kind, grid: Grid, pair: Pair = PAIR) -> str:
    return next_step(Limit(kind, 0.9, {}, 3, None), grid, "m", pair)


def test_what_is_on_already_or_not_there_is_not_advised() -> None:
    times = {PAIR: [1.0, 1.01, 1.02]}
    everything = {"precision": "bf16", "channels_last": True, "compile": True, "pin_memory": True}
    assert advice("compute", grid_with(times)) == "try another precision, channels_last or compile"
    assert advice("compute", grid_with(times, precision="bf16", compile=True)) == "try channels_last"
    assert "nothing is left to switch on" in advice("compute", grid_with(times, **everything))
    assert advice("compute", grid_with(times, experiment="extract")) == "try another precision"
    assert "pin_memory" in advice("transfer", grid_with(times))
    assert "pin_memory" not in advice("transfer", grid_with(times, **everything))
    assert "pin_memory" not in advice("transfer", grid_with(times, experiment="extract"))
    assert "prefetch" in advice("loading", grid_with(times, format="memmap"))
    assert "tensors" not in advice("loading", grid_with(times, experiment="extract"))


def test_workers_beyond_the_cores_are_not_advised_without_saying_so() -> None:
    many, more = Pair(32, 64), Pair(32, 96)
    alone = {many: [1.0, 1.01, 1.02]}
    assert advice("loading", grid_with(alone, cores=32), many).startswith("64 workers already share 32 cores; try")
    assert advice("loading", grid_with(alone, cores=128), many).startswith("try more than 64 workers")
    assert advice("loading", grid_with(alone), many).startswith("try more than 64 workers"), "nobody knows the cores"
    assert advice("loading", grid_with({**alone, more: [1.0]}, cores=32), many) == \
        "try 96 workers, though they share 32 cores"
    assert advice("loading", grid_with({**alone, more: [1.0]}, cores=128), many) == "try 96 workers"


@pytest.mark.parametrize(("status", "said"), [("oom", "try another precision"), (NOT_BEGUN, "try batch size 64;")])
def test_a_batch_that_was_out_of_memory_is_not_to_be_tried(status: str, said: str) -> None:
    grid = grid_with({PAIR: [1.0, 1.01, 1.02]})
    larger = Pair(64, 2)
    grid.runs[("m", larger)] = [run(larger, 1.0, 0.1)._replace(status=status, end_to_end_s=None)]
    assert advice("compute", grid).startswith(said)


def test_the_next_step_knows_what_the_neighbours_showed() -> None:
    slow, same = [2.0, 2.01, 2.02], [2.0, 2.01, 2.03]
    for times, said in (({PAIR: slow, Pair(32, 4): [1.0, 1.01, 1.02]}, "use 4 workers"),
                        ({PAIR: slow, Pair(32, 4): same}, "4 workers show no gain here; try images stored as tensors"),
                        ({PAIR: slow, Pair(32, 4): [1.0]}, "try 4 workers"),
                        ({PAIR: slow}, "try more than 2 workers")):
        grid = grid_with(times)
        limit = find_limit(grid.measured("m", PAIR), 2, {})
        assert limit.kind == "loading" and next_step(limit, grid, "m", PAIR).startswith(said)


def test_a_neighbour_is_compared_per_item_only_if_every_run_says_how_many() -> None:
    """Half as long for a quarter of the items is slower per item; with the items of one side unknown, it is faster."""
    here, there = [2.0, 2.01, 2.02], [1.0, 1.01, 1.02]
    for known, said in ((100.0, "4 workers show no gain"), (None, "use 4 workers"), (-1.0, "use 4 workers")):
        runs = [run(pair, value, 0.1, number, load_data=value)._replace(items=items)
                for pair, values, items in ((PAIR, here, 400.0), (Pair(32, 4), there, known))
                for number, value in enumerate(values)]
        (grid,) = split_grids(runs, {})
        found = next_step(find_limit(grid.measured("m", PAIR), 2, {}), grid, "m", PAIR)
        assert found.startswith(said)


def test_a_larger_batch_that_was_measured_and_shows_no_gain_is_not_advised() -> None:
    larger = Pair(64, 2)
    assert advice("compute", grid_with({PAIR: [1.0, 4.0], larger: [2.0, 2.1]})).startswith("try another precision")
