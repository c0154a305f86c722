"""What a run reached epoch by epoch, from metrics named epoch_001_train_s and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

EPOCH = re.compile(r"epoch_(\d+)_(.+)")
ACCURACIES = {"train_accuracy": "training", "val_accuracy": "validation"}
TIMES = {"train_s": "training", "validate_s": "validation", "s": "training"}
"""The experiment `training` has the seconds of its epochs without a name: validation is not in them."""


class Curve(NamedTuple):
    """One figure of every epoch that has it, in order."""

    part: str
    epochs: list[int]
    values: list[float]


def epoch_curves(metrics: Mapping[str, float | None], parts: Mapping[str, str]) -> list[Curve]:
    """One for each of the parts that there is, by the name that an epoch's metric has after its number."""
    found: dict[str, dict[int, float]] = {part: {} for part in parts.values()}
    for name, value in metrics.items():
        if value is not None and (match := EPOCH.fullmatch(name)) and match[2] in parts:
            found[parts[match[2]]][int(match[1])] = value
    return [Curve(part, sorted(values), [values[epoch] for epoch in sorted(values)])
            for part, values in found.items() if values]
