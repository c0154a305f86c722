"""Curves of a run's epochs from the names of its metrics."""

from __future__ import annotations

from analysis.epochs import ACCURACIES, TIMES, Curve, epoch_curves


def test_curves_are_in_the_order_of_the_epochs_and_leave_out_what_is_not_known() -> None:
    metrics = {"epoch_010_val_accuracy": 0.9, "epoch_002_val_accuracy": 0.5, "epoch_001_val_accuracy": None,
               "epoch_002_train_accuracy": 0.4, "epoch_002_train_s": 3.0, "val_accuracy": 0.9, "actual_epoch_s": 7.0}
    assert epoch_curves(metrics, ACCURACIES) == [Curve("training", [2], [0.4]),
                                                 Curve("validation", [2, 10], [0.5, 0.9])]
    assert epoch_curves(metrics, TIMES) == [Curve("training", [2], [3.0])]
    assert epoch_curves({"epoch_001_s": 1.0, "epoch_002_s": 2.0}, TIMES) == [Curve("training", [1, 2], [1.0, 2.0])]
    assert epoch_curves({"val_accuracy": 0.9}, ACCURACIES) == []
