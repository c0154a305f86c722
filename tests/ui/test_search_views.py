"""What the views of the Model search page say, from numbers that are known."""

from __future__ import annotations

from analysis.bottlenecks import GROUPS, Bar
from analysis.scenarios import Basis
from analysis.search import Agreement
from ui.search_agreement import about_agreement, agreement_frame, scatter, too_few_models
from ui.search_bottlenecks import about_bars
from ui.search_scenarios import about_basis
from ui.sliders import round_numbers


def bar(total_s: float) -> Bar:
    """Its groups add up to four seconds."""
    groups_s = dict(zip(GROUPS, (0.5, 1.0, 2.0, 0.5, 0.0), strict=True))
    return Bar("resnet18", 96, "", "1a2b", "one", "full", "whole", groups_s, total_s, 1, 0,
               [total_s], None, None, None, "stem to head")


def test_groups_that_overlap_are_told() -> None:
    assert about_bars([bar(4.0)]) == "Whole: **inference** takes most, 50% of 4.00 s."
    assert about_bars([bar(3.0)]) == (
        "Whole: **inference** takes most, 50% of 4.00 s. Whole: the groups add up to 4.00 s and the clock shows 3.00 "
        "s, because they overlap on the device; shares are of their sum.")


def agreement(models: int, tuned: list[int], scored: list[int]) -> Agreement:
    return Agreement("score_logme", "", "1a2b", "all", 96, [f"m{n}" for n in range(models)],
                     [float(n) for n in range(models)], [n / 10 for n in range(models)],
                     1.0 if models > 4 else None, 0.02 if models > 4 else None, tuned, scored, 0)


def test_seeds_behind_an_agreement_are_told_where_there_are_several() -> None:
    one = about_agreement(agreement(5, [0], [0]))
    assert one == ("LogME: rank correlation **1.00** over 5 models fine-tuned on 96 images; it ranks them alike "
                   "(chance alone gives as much in 2% of orders).")
    assert about_agreement(agreement(5, [0, 2], [0, 2])) == one + " Seeds 0, 2 are pooled."
    assert about_agreement(agreement(5, [0], [1])) == one + " Fine-tuned with seeds 0, scored with seeds 1."
    assert about_agreement(agreement(5, many := list(range(30)), many)).endswith(
        " Seeds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and more are pooled.")


def test_four_models_are_too_few() -> None:
    four, five = agreement(4, [0], [0]), agreement(5, [0], [0])
    assert too_few_models({"all": [four]}) and not too_few_models({"all": [four], "head": [five]})
    assert "4 models were both scored and fine-tuned; at least 5 are needed" in about_agreement(four)
    assert "both scored and fine-tuned (head only); at least" in about_agreement(four._replace(layers="head"))


def test_labels_of_neighbours_go_to_different_sides() -> None:
    close = agreement(5, [0], [0])._replace(scores=[0.1, 0.2, 0.2, 0.9, 0.2], accuracies=[0.5, 0.2, 0.15, 0.2, 0.2])
    frame = agreement_frame(close)
    assert dict(zip(frame["label"], frame["side"], strict=True)) == {
        "m0": "above", "m1, m4": "above", "m2": "below", "m3": "above", "": "below"}
    assert len(scatter(frame, "LogME").to_dict()["layer"]) == 3


def test_what_is_in_the_time_of_a_search_is_said() -> None:
    measured = Basis(9.0, 0.5, 40, 3, {"linear": 0.25, "knn": 0.01})
    assert about_basis(measured, "linear") == "Based on 40 images: extraction 500 ms, linear head 250 ms."
    assert about_basis(measured, "") == "Based on 40 images: extraction 500 ms, without a score."
    assert "grow with the square" in about_basis(measured, "knn")
    assert "this pair has extraction alone" in about_basis(Basis(91.0, 3.9, 4000, 10), "")
    assert "Both times hold the start of the loader's workers (of the extraction 200 ms until the first batch)" in (
        about_basis(measured._replace(first_batch_s=0.2), "linear"))


def test_a_slider_stops_at_round_numbers() -> None:
    assert round_numbers(0.5, 20) == [0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20]
    assert len(round_numbers(1, 100_000)) == 46
