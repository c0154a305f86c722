"""What an experiment says to its recorder is in the run's journal, also when the experiment fails."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest

from engine.journal import Batches, Effective, File, JournalWriter, Metric, Samples, Stage, read_records
from engine.recorder import STAGES, Recorder


class Run:
    """A run of its own: a real journal in a sweep's folder, and what the sweep would have been told."""

    def __init__(self, sweep_folder: Path) -> None:
        self.told: list[str] = []
        self.runs = sweep_folder / "runs"
        self.journal = JournalWriter(self.runs / "r.1.jsonl")
        self.origin = perf_counter()
        self.recorder = Recorder("r", self.journal, self.origin, self.told.append, self.runs, sweep_folder / "cache")

    def flushed(self, kind: type[Any]) -> list[Any]:
        """What would survive if the process were killed now."""
        return [record for record in read_records(self.journal.path) if isinstance(record, kind)]

    def written(self, kind: type[Any]) -> list[Any]:
        self.journal.close()
        return self.flushed(kind)

    def measure(self, batches: int, then: BaseException | None = None) -> None:
        with self.recorder.measure() as clock:
            for _ in range(batches):
                with clock.phase("load_data"):
                    pass
                with clock.phase("inference", on_device=True):
                    pass
                clock.end_batch(8)
            if then:
                raise then

    def counted(self) -> list[int]:
        """The numbers of the batches in the journal, as they were written."""
        return [record.first_batch + index for record in self.written(Batches) for index in range(len(record.items))]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "sweep")


# -- stages ------------------------------------------------------------------------------------------------------------


def test_every_stage_can_be_measured_and_is_on_disk_at_once(run: Run) -> None:
    for number, name in enumerate(STAGES[1:], start=2):
        with run.recorder.stage(name):
            assert run.told[-1] == name, "the sweep knows what goes on"
        assert len(run.flushed(Stage)) == number
    stages = run.written(Stage)
    assert [stage.stage for stage in stages] == list(STAGES)
    assert {stage.run_id for stage in stages} == {"r"}
    assert all(stage.seconds >= 0 for stage in stages)
    for stage, following in pairwise(stages):
        assert 0 <= stage.start_s <= stage.start_s + stage.seconds <= following.start_s + 2e-9
    assert run.recorder.last_stage_end <= perf_counter()


def test_unknown_stage_is_refused_with_the_ones_there_are(run: Run) -> None:
    with pytest.raises(AssertionError, match="warmup is not a stage; stages are start_process, prepare_data, "), \
            run.recorder.stage("warmup"):
        pass
    assert run.told == []
    assert run.written(Stage) == []


def test_stage_that_fails_has_no_length(run: Run) -> None:
    with run.recorder.stage("prepare_data"):
        pass
    ended = run.recorder.last_stage_end
    with pytest.raises(RuntimeError, match="no model"), run.recorder.stage("init_model"):
        raise RuntimeError("no model")
    assert [stage.stage for stage in run.written(Stage)] == ["start_process", "prepare_data"]
    assert run.recorder.last_stage_end == ended


def test_times_count_from_the_moment_the_run_was_asked_for(run: Run) -> None:
    run.recorder.stage_ended("start_process", run.origin, run.origin + 0.25)
    [stage] = run.written(Stage)
    assert (stage.start_s, stage.seconds) == (0.0, 0.25)


# -- the measured window -----------------------------------------------------------------------------------------------


def test_measured_window_ends_with_its_own_metrics(run: Run) -> None:
    run.measure(5)
    [start, stage] = run.written(Stage)
    assert (start.stage, stage.stage) == ("start_process", "measure")
    assert run.told[0] == "measure"
    metrics = {metric.name: (metric.value, metric.unit) for metric in run.written(Metric)}
    end_to_end_s, unit = metrics.pop("end_to_end_s")
    assert unit == "s"
    assert metrics == {"batches": (5, "batches"), "items": (40, "items")}
    assert run.counted() == [0, 1, 2, 3, 4]
    batches_s = sum(seconds for record in run.written(Batches) for seconds in record.seconds)
    assert batches_s <= end_to_end_s + 1e-8 <= stage.seconds + 2e-8


@pytest.mark.parametrize("error", [RuntimeError("stopped"), MemoryError("stopped"), KeyboardInterrupt("stopped")])
def test_failure_keeps_the_finished_batches_and_claims_no_end_to_end_time(run: Run, error: BaseException) -> None:
    with pytest.raises(type(error), match="stopped"):
        run.measure(4, error)
    assert len([seconds for record in run.flushed(Batches) for seconds in record.seconds]) == 4, "on disk at once"
    assert run.counted() == [0, 1, 2, 3]
    assert run.written(Metric) == []
    assert [stage.stage for stage in run.written(Stage)] == ["start_process"]


def test_batch_that_was_not_finished_is_none(run: Run) -> None:
    def fail_in_a_phase() -> None:
        with run.recorder.measure() as clock:
            with clock.phase("inference"):
                pass
            clock.end_batch(8)
            with clock.phase("inference"):
                raise RuntimeError("in the second batch")

    with pytest.raises(RuntimeError, match="in the second batch"):
        fail_in_a_phase()
    assert run.counted() == [0]


def test_failure_before_the_first_batch_leaves_an_empty_journal(run: Run) -> None:
    with pytest.raises(RuntimeError):
        run.measure(0, RuntimeError())
    assert run.counted() == []


def test_delivered_batches_are_a_sign_of_life(run: Run) -> None:
    run.measure(3)
    assert run.told[0] == "measure"
    assert set(run.told[1:]) == {""}
    told = len(run.told)
    run.recorder.alive()
    assert run.told[told:] == [""]


# -- metrics, effects, files -------------------------------------------------------------------------------------------


def test_metric_that_is_not_finite_is_kept_as_text(run: Run) -> None:
    for name, value in {"a": float("nan"), "b": float("inf"), "c": float("-inf"), "d": 1.5, "e": 3}.items():
        run.recorder.metric(name, value)
    assert {metric.name: metric.value for metric in run.written(Metric)} == {
        "a": "nan", "b": "inf", "c": "-inf", "d": 1.5, "e": 3}


def test_samples_that_are_not_finite_are_left_out_and_harm_nothing(run: Run) -> None:
    run.recorder.sample("training", loss=math.nan)
    run.recorder.sample("training", loss=0.5, rate=math.inf)
    assert [record.readings for record in run.written(Samples)] == [[("training", "loss", 0.5)]]


def test_metric_of_a_truth_value_leaves_a_readable_journal(run: Run) -> None:
    run.recorder.metric("gate_passed", True)
    run.recorder.metric("after", 2.0)
    assert [metric.value for metric in run.written(Metric)] == [1.0, 2.0]


def test_metric_takes_the_numbers_that_libraries_return(run: Run) -> None:
    import numpy
    import torch

    for value in (numpy.float64(1.5), numpy.float32(1.5), torch.tensor(1.5)):
        run.recorder.metric("loss", value)
    assert [metric.value for metric in run.written(Metric)] == [1.5, 1.5, 1.5]


def test_what_took_effect_is_kept(run: Run) -> None:
    run.recorder.effective(workers=2, device="cpu", threads=None)
    run.recorder.effective(batches=19)
    assert [record.values for record in run.written(Effective)] == [
        {"workers": 2, "device": "cpu", "threads": None}, {"batches": 19}]


def test_file_is_kept_by_its_path_inside_the_sweeps_folder(run: Run) -> None:
    plain, deep = run.runs / "r-profile.json", run.runs / "größe" / "two words.txt"
    deep.parent.mkdir()
    plain.write_bytes(b"12345")
    deep.write_bytes(b"")
    run.recorder.keep_file(plain, "profile")
    run.recorder.keep_file(deep, "größe")
    assert [(file.path, file.title, file.size_bytes) for file in run.written(File)] == [
        ("runs/r-profile.json", "profile", 5), ("runs/größe/two words.txt", "größe", 0)]


def test_file_that_was_not_made_is_an_error_of_the_experiment(run: Run) -> None:
    with pytest.raises(FileNotFoundError):
        run.recorder.keep_file(run.runs / "missing.json", "profile")
    assert run.written(File) == []


def test_file_outside_of_the_sweeps_folder_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_text("not a result")
    (run.runs / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    for path in (tmp_path / "elsewhere.txt", run.runs / "link.txt"):
        with pytest.raises(ValueError, match="write it there"):
            run.recorder.keep_file(path, "way out")


def test_a_stage_between_batches_is_no_part_of_the_window(run: Run) -> None:
    with run.recorder.measure() as clock:
        for _ in range(3):
            with clock.phase("inference"):
                sleep(0.01)
            clock.end_batch(8)
            with run.recorder.aside("validate", clock):
                sleep(0.2)
    stages = run.written(Stage)
    assert [stage.stage for stage in stages] == ["start_process", *["measure", "validate"] * 3, "measure"]
    for earlier, later in pairwise(stages[1:]):
        assert later.start_s == pytest.approx(earlier.start_s + earlier.seconds, abs=0.05)
    (whole,) = [metric.value for metric in run.flushed(Metric) if metric.name == "end_to_end_s"]
    measured = sum(stage.seconds for stage in stages if stage.stage == "measure")
    batches = sum(seconds for record in run.flushed(Batches) for seconds in record.seconds)
    assert 0.03 <= batches <= whole <= measured + 1e-6, "the pauses are in none of them"
    assert sum(stage.seconds for stage in stages if stage.stage == "validate") >= 0.6
