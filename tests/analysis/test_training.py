"""Methods of training are compared per image, and only where everything else is alike."""

from __future__ import annotations

import math
from typing import Any

import pytest

from analysis.training import Curve, Published, TrainingRun, compare_curves, compare_methods, published_ratio, smooth
from ui.training_charts import loss_frame
from ui.training_page import about_losses, about_methods, in_order, make_label, own_table


def run(cell: str, epoch_s: float, method: str = "baseline", devices: int = 1, batch: int = 16, images: int = 160,
        batch_s: float = 0.1, environment: str = "one", **params: Any) -> TrainingRun:
    asked = {"method": method, "devices": devices, "batch_size": batch, "image_size": 32, **params}
    return TrainingRun(f"{cell}-{epoch_s}-{environment}", cell, environment, asked, devices, batch, batch * devices,
                       images, batch_s, epoch_s, noisy=epoch_s > 100)


def test_the_estimate_is_images_over_the_global_batch_times_a_batch() -> None:
    (cell,) = compare_methods([run("a", 1.5, "ddp", devices=2, batch=8, batch_s=0.1)])
    assert cell.estimated_epoch_s.value == pytest.approx(160 / 16 * 0.1)
    assert cell.actual_to_estimated == pytest.approx(1.5)
    assert cell.image_s.value == pytest.approx(1.5 / 160)
    assert (cell.against, cell.why_not) == (None, "no plain training in this sweep")


def test_time_per_image_against_plain_training_of_the_same_settings() -> None:
    plain = [run("plain", seconds) for seconds in (1.0, 1.1, 0.9)]
    slow = [run("slow", seconds, "checkpointing", batch=32) for seconds in (2.0, 2.1, 1.9)]
    other = [run("other", 1.0, "checkpointing", image_size=64)]
    fewer = [run("fewer", 1.0, "ddp", images=80)]
    cells = {cell.first.cell: cell for cell in compare_methods([*plain, *slow, *other, *fewer])}
    against = cells["slow"].against
    assert against is not None and against.value == pytest.approx(2.0, rel=0.02) and against.verdict == "higher"
    assert cells["plain"].against is None and cells["plain"].why_not == ""
    assert (cells["other"].against, cells["other"].why_not) == (None, "plain training had other settings")
    assert cells["fewer"].why_not == "plain training had epochs of 160 images"


def test_environments_are_neither_pooled_nor_compared() -> None:
    """A sweep that was resumed after an upgrade: the second half of its runs takes twice the time."""
    runs = [*(run("plain", 1.0 + number / 100) for number in range(3)),
            *(run("gc", 2.0 + number / 100, "checkpointing", environment="two") for number in range(3)),
            run("one", 1.0, "ddp"), run("two", 1.0, "ddp", devices=2, environment="two"),
            run("plain", 9.0, environment="three")]
    plain, gc, one, two, again = compare_methods(runs)
    assert (plain.runs, plain.image_s.value) == (3, pytest.approx(1.01 / 160, rel=1e-3)) and again.runs == 1
    assert (gc.against, gc.why_not) == (None, "plain training ran in another environment")
    assert one.against is not None and two.efficiency is None
    label = make_label(runs)
    assert [label(cell.first) for cell in (plain, again)] == ["baseline, 1 device, environment one",
                                                              "baseline, 1 device, environment three"]
    told = set(own_table([plain, gc], label)["Times plain's"])
    assert "not comparable: plain training ran in another environment" in told


def test_curves_of_two_environments_are_two_and_are_not_compared() -> None:
    runs = [run("plain", 1.0), run("plain", 1.0, environment="two"), run("gc", 1.0, "checkpointing")]
    curves = [Curve(one.run_id, one.group, [16], [loss]) for one, loss in zip(runs, (2.0, 3.0, 2.0), strict=True)]
    (pair,) = compare_curves(curves, {one.run_id: one for one in runs})
    assert (pair.one, pair.other, pair.difference) == ("plain~one", "gc~one", 0)
    assert list(loss_frame(curves, {one.group: one.group for one in runs})["loss"]) == [2.0, 3.0, 2.0]


def test_full_batches_of_other_sizes_are_the_same_work() -> None:
    """Seed 002's own batches leave out different ends of the same 100,000 images."""
    rows = [("baseline", 512, 1, 99_840), ("checkpointing", 1500, 1, 99_000), ("dp", 1250, 2, 100_000),
            ("ddp", 1500, 2, 99_000)]
    cells = compare_methods([run(method, 100.0 + number, method, devices, batch, images)
                             for number, (method, batch, devices, images) in enumerate(rows)])
    assert [cell.why_not for cell in cells] == [""] * 4
    assert sum(cell.against is not None for cell in cells) == 3


def test_the_baseline_with_the_same_batch_per_device_is_preferred() -> None:
    cells = compare_methods([run("32", 4.0, batch=32), run("16", 2.0), run("gc", 3.0, "checkpointing")])
    assert cells[2].against is not None and cells[2].against.value == pytest.approx(1.5)
    assert cells[2].plain_batch_size is None
    assert "another batch" not in own_table(cells, lambda run: run.cell)["Times plain's"][2]


def test_a_baseline_at_another_batch_per_device_is_named_wherever_the_ratio_is() -> None:
    cells = compare_methods([run("plain", 2.0, batch=16), run("gc", 3.0, "checkpointing", batch=32)])
    assert cells[1].plain_batch_size == 16
    assert own_table(cells, lambda run: run.cell)["Times plain's"][1].endswith("plain at another batch per device (16)")
    assert "1.50 (no interval: too few runs) times that of plain training, plain at another batch per device (16)" in (
        about_methods(cells, lambda run: run.cell).replace("\\", ""))


def test_efficiency_is_against_the_same_method_on_one_device() -> None:
    """From median batches: one second of the loader's start is in both epochs, and in the second among half as many
    batches."""
    cells = compare_methods([run("plain", 1.0), run("one", 2.0, "ddp", batch_s=0.1),
                             run("two", 1.625, "ddp", devices=2, batch_s=0.125),
                             run("sharded", 1.0, "fsdp", devices=2), run("wide", 1.0, "ddp", devices=2, batch=8)])
    by_name = {cell.first.cell: cell for cell in cells}
    two = by_name["two"].efficiency
    assert two is not None and two.value == pytest.approx(0.1 / 0.125) and two.verdict == "too few runs to tell"
    assert [by_name[name].efficiency for name in ("plain", "one", "sharded", "wide")] == [None] * 4


def test_curves_are_compared_where_the_batches_were_the_same() -> None:
    runs = [run("plain", 1.0), run("two", 1.0, "ddp", devices=2, batch=8), run("more", 1.0, "ddp", devices=2)]
    curves = [Curve(one.run_id, one.group, [16, 32], losses)
              for one, losses in zip(runs, ([2.0, 1.0], [2.0, 1.1], [5.0, 5.0]), strict=True)]
    (pair,) = compare_curves(curves, {one.run_id: one for one in runs})
    assert (pair.one, pair.other) == ("plain~one", "two~one") and pair.difference == pytest.approx(0.1)


def test_curves_that_part_late_say_how_far_they_agree() -> None:
    """As rounding does that every step passes on."""
    runs = [run("plain", 1.0), run("reversible", 1.0, "reversible")]
    curves = [Curve(one.run_id, one.group, [16, 32, 48, 64], losses) for one, losses in
              zip(runs, ([4.0, 3.0, 2.0, 1.0], [4.0, 3.0001, 2.1, 1.0]), strict=True)]
    (pair,) = likeness = compare_curves(curves, {one.run_id: one for one in runs})
    assert (pair.difference, pair.alike_images) == (pytest.approx(0.05), 32)
    said = about_losses(curves, likeness, {one.group: one.cell for one in runs})
    assert said.endswith("by 5 % of the loss. They agree up to 32 images.")


def test_many_losses_have_a_running_mean() -> None:
    assert smooth([3.0, 1.0, 2.0]) == [3.0, 1.0, 2.0]
    falling = [80.0 - number for number in range(80)]
    assert smooth(falling) == pytest.approx(falling), "a mean that lags would lie above a falling loss"
    noisy = [2.0 + (-1) ** number for number in range(80)]
    assert smooth(noisy)[:2] == [3.0, pytest.approx(7 / 3)]
    assert {round(mean, 6) for mean in smooth(noisy)[2:-2]} == {1.8, 2.2}


def test_models_stand_together_by_depth_and_methods_in_their_order() -> None:
    runs = [run(f"{model} {method}", 1.0, method, model=model) for method in ("reversible", "baseline")
            for model in ("revnet_18", "adjusted_resnet18", "revnet_3")]
    assert [one.cell for one in in_order(runs)][2:] == [
        "revnet_3 baseline", "revnet_3 reversible", "revnet_18 baseline", "revnet_18 reversible"]


@pytest.mark.parametrize(("losses", "difference"), [
    ([2.0, math.nan], math.inf), ([2.0], math.inf), ([math.inf, 1.0], math.inf), ([2.0, 1.0], 0.0)])
def test_a_loss_that_is_not_finite_is_a_difference(losses: list[float], difference: float) -> None:
    runs = [run("plain", 1.0), run("two", 1.0, "ddp", devices=2, batch=8)]
    curves = [Curve(one.run_id, one.group, [16, 32], values)
              for one, values in zip(runs, ([2.0, 1.0], losses), strict=True)]
    (pair,) = compare_curves(curves, {one.run_id: one for one in runs})
    assert pair.difference == difference
    both = [Curve(one.run_id, one.group, [16, 32], [2.0, math.nan]) for one in runs]
    assert compare_curves(both, {one.run_id: one for one in runs})[0].difference == 0
    labels = {"plain~one": "plain", "two~one": "ddp"}
    assert about_losses([curves[0], both[1]], [pair], labels).startswith("The last loss is")
    assert "ran away" in about_losses(both, [], {})


@pytest.mark.parametrize(("devices", "layers", "told"), [(2, 20, True), (2, 0, False), (2, None, False),
                                                         (1, 20, False)])
def test_batch_norm_is_named_where_it_is_the_reason(devices: int, layers: int | None, told: bool) -> None:
    runs = [one._replace(batch_norms=layers) for one in
            (run("plain", 1.0), run("other", 1.0, "ddp", devices=devices, batch=16 // devices))]
    curves = [Curve(one.run_id, one.group, [16], [2.0 + number]) for number, one in enumerate(runs)]
    likeness = compare_curves(curves, {one.run_id: one for one in runs})
    assert ("batch norm" in about_losses(curves, likeness, {"plain~one": "plain", "other~one": "ddp"})) == told


def test_published_ratios_are_per_image_of_actual_epochs() -> None:
    rows = [Published("baseline", 1, 512, 512, 0.57, 111, 187, 100_000, ""),
            Published("ddp", 2, 1500, 3000, None, None, 96, 100_000, "")]
    assert [published_ratio(row, rows) for row in rows] == [None, pytest.approx(96 / 187)]
