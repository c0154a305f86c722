"""From one measured pair to a whole process: when does searching take longer than training, and the comparison of
seed 000 with SHiFT, step by step. Assumptions are arguments; the study's own are named here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

HOUR_S = 3600


class Scenario(NamedTuple):
    """`runs` full training runs of `run_s` seconds each, and `search_s` seconds for each model that is searched."""

    name: str
    run_s: float
    runs: float
    search_s: float

    @property
    def training_s(self) -> float:
        return self.run_s * self.runs


STUDY = (Scenario("S1", 91.0, 1.0, 4.0), Scenario("S2", 200.0, 2.5, 4.0))
"""Seed 000, resnet50 and 4,000 images: one training of ten epochs; five sets of hyper-parameters, some given up early,
as 2.5 full runs."""
STUDY_MODELS = 50_000
MOST_MODELS = 100_000


def break_even(scenario: Scenario) -> int:
    """The most models that can be searched without searching taking longer than training."""
    # A grain above the quotient: 500 / 4 must be 125 also where the two are sums of floats.
    return math.floor(scenario.training_s / scenario.search_s * (1 + 1e-12))


def search_share(scenario: Scenario, models: float) -> float:
    """Of the end-to-end time, search and training."""
    return models * scenario.search_s / (models * scenario.search_s + scenario.training_s)


def model_counts(scenario: Scenario, most: int = MOST_MODELS) -> list[int]:
    """From 1 to `most`, evenly on a logarithmic axis, the break-even among them."""
    steps = {round(10 ** (step / 8)) for step in range(math.ceil(8 * math.log10(most)) + 1)}
    return sorted({count for count in (*steps, break_even(scenario)) if 1 <= count <= most})


class Basis(NamedTuple):
    """What was measured: fine-tuning over so many epochs, extraction and the scores after it, on so many images."""

    finetune_s: float
    extract_s: float
    items: int
    epochs: int
    scores_s: Mapping[str, float] = {}
    first_batch_s: float | None = None
    """Of the extraction, where loader workers started in it."""


def extrapolate(basis: Basis, name: str, items: int, epochs: int, runs: float, score: str = "") -> Scenario:
    """Linear in images and epochs: what a steady state is, and the start of loader workers is not. A search is
    extraction and the score of that name; without a name, extraction alone."""
    grown = items / basis.items
    search_s = basis.extract_s + (basis.scores_s[score] if score else 0.0)
    return Scenario(name, basis.finetune_s * grown * epochs / basis.epochs, runs, search_s * grown)


SHIFT_INFERENCE = (
    9, 8, 8, 9, 8, 9, 11, 11, 10, 11, 9, 9, 11, 9, 8, 9, 11, 11, 10, 9, 9, 19, 16, 22, 13, 16, 22, 13, 12, 15, 17, 21,
    32, 44, 79, 151, 13, 25, 21, 12, 12, 12, 12, 11, 12, 17, 10, 10, 10, 10, 11, 11, 12, 12, 11, 14, 14, 17, 85, 55, 23,
    11, 11, 12, 14, 11, 12, 13, 14, 73, 33, 74, 63, 33, 21, 26, 13, 11, 14, 18, 6, 6, 6, 6, 6, 8, 6, 6, 7, 6, 6, 6, 6,
    7, 6, 7, 8, 8, 9, 8, 9)
"""Inference times of SHiFT's vision models as seed 000 lists them: 101 terms, which it divides by 100."""


class Shift(NamedTuple):
    """The study's figures about SHiFT's setting."""

    measured_s: float = 91.0
    measured_epochs: int = 10
    epochs: int = 20
    slower_gpu: float = 200 / 182
    """The study takes 2 x 91 s as 200 s, the rest being a less powerful GPU."""
    data_low: float = 10.0
    data_high: float = 15.0
    models: int = 100
    own_inference: float = 12.0
    """resnet50's, in the same list."""
    reported_low_h: float = 250.0
    reported_high_h: float = 300.0


class Step(NamedTuple):
    """One step of the comparison; `high` is None where there is one figure. `study` is what the study has there."""

    what: str
    how: str
    low: float
    high: float | None
    unit: str
    study: str
    differs: str = ""


def mean_inference(times: Sequence[float] = SHIFT_INFERENCE) -> float:
    return sum(times) / len(times)


def compare_with_shift(given: Shift | None = None) -> list[Step]:
    """Every step with what it is computed from, and where the study slipped."""
    given = given or Shift()
    model_s = given.measured_s * given.epochs / given.measured_epochs * given.slower_gpu
    low_s, high_s = model_s * given.data_low, model_s * given.data_high
    low_h, high_h = low_s * given.models / HOUR_S, high_s * given.models / HOUR_S
    mean = mean_inference()
    factor = mean / given.own_inference
    scaled_low, scaled_high = low_h * factor, high_h * factor
    count, total = len(SHIFT_INFERENCE), sum(SHIFT_INFERENCE)
    return [
        Step("One model, our data, their epochs",
             f"{given.measured_s:g} s × {given.epochs} / {given.measured_epochs} epochs × {given.slower_gpu:.2f} for a "
             "slower GPU", model_s, None, "s", "200 s"),
        Step("One model, their data", f"× {given.data_low:g} to {given.data_high:g}", low_s, high_s, "s",
             "2000 to 3000 s"),
        Step("All their models", f"× {given.models}", low_h, high_h, "h", "56 to 83 h, later “65 to 83 h”",
             "65 is a slip for 56"),
        Step("Mean inference time of their models", f"{total} / {count}", mean, None, "", "17.63",
             f"{count} terms were divided by 100"),
        Step("Their mean model against ours", f"{mean:.2f} / {given.own_inference:g}", factor, None, "×", "1.5"),
        Step("Our figure in their setting", f"× {factor:.2f}", scaled_low, scaled_high, "h", "97.5 to 124 h",
             "from 65 h and from 1.5"),
        Step("They report", "", given.reported_low_h, given.reported_high_h, "h", "250 to 300 h"),
        Step("They take longer by", "lowest by highest to highest by lowest", given.reported_low_h / scaled_high,
             given.reported_high_h / scaled_low, "×", "2 to 3 ×"),
    ]
