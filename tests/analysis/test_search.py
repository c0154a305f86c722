"""Speed-ups over like runs only, and whether scores rank models as training does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from analysis.comparison import compare
from analysis.search import (
    Published,
    SearchRun,
    agreements,
    parted_by_environment,
    rank_correlation,
    speed_ups,
    unmatched,
)

SIZE = {"train_images": 80, "val_images": 20, "batch_size": 32, "seed": 0}


def tuned(seconds: float, model: str = "resnet18", environment: str = "e", noisy: bool = False,
          accuracy: float = 0.5, **asked: Any) -> SearchRun:
    params = {"model": model, **SIZE, "epochs": 10, "layers": "all", **asked}
    return SearchRun("r", "finetune", str(sorted(params.items())), environment, noisy, params,
                     {"finetune_s": seconds, "val_accuracy": accuracy}, {})


def extracted(seconds: float, model: str = "resnet18", environment: str = "e", score: float = 0.5,
              **asked: Any) -> SearchRun:
    params = {"model": model, **SIZE, "standardise": True, **asked}
    return SearchRun("r", "extract", str(sorted(params.items())), environment, False, params,
                     {"end_to_end_s": seconds, "score_logme": score}, {})


def test_published_pairs() -> None:
    """The figures of seed 000."""
    pairs = [Published("resnet50", 800, 200, 26.4, 1.3), Published("resnet50", 3200, 800, 91, 3.9),
             Published("vit_l_16", 800, 200, 282.4, 11.5), Published("vit_l_16", 3200, 800, 1108, 45.5)]
    assert [round(pair.ratio, 1) for pair in pairs] == [20.3, 23.3, 24.6, 24.4]


def test_a_speed_up_is_the_ratio_over_runs_with_its_interval() -> None:
    (found,) = speed_ups([tuned(20.0), tuned(22.0, noisy=True), tuned(21.0), extracted(1.0), extracted(1.1)])
    assert found.ratio == compare([20.0, 22.0, 21.0], [1.0, 1.1])
    assert (found.model, found.items, found.epochs, found.layers, found.other) == ("resnet18", 100, 10, "all", "")
    assert found.noisy_runs == 1


@pytest.mark.parametrize("other", [
    extracted(1.0, environment="f"), extracted(1.0, batch_size=8), extracted(1.0, model="resnet50"),
    extracted(1.0, train_images=800)])
def test_unlike_runs_are_never_compared(other: SearchRun) -> None:
    runs = [tuned(20.0), other]
    assert speed_ups(runs) == []
    assert unmatched(runs) == sorted({"resnet18 (finetune)", f"{other.params['model']} (extract)"})
    assert parted_by_environment(runs) == (["resnet18"] if other.environment_id == "f" else [])


def test_what_sets_pairs_apart_is_said() -> None:
    runs = [tuned(20.0), tuned(5.0, layers="head"), tuned(40.0, learning_rate=0.1), extracted(1.0)]
    found = speed_ups(runs)
    assert [(pair.layers, pair.other) for pair in found] == [
        ("all", "learning_rate=0.1"), ("all", "learning_rate=None"), ("head", "learning_rate=None")]


def test_an_open_number_of_validation_images_is_what_took_effect() -> None:
    runs = [tuned(20.0, val_images=None)._replace(effective={"val_images": 20}), extracted(1.0, val_images=None)]
    assert [pair.items for pair in speed_ups(runs)] == [100]


def test_a_pair_keeps_its_id_whatever_else_is_there() -> None:
    runs = [tuned(20.0), extracted(1.0)]
    (alone,) = speed_ups(runs)
    assert alone.pair_id.startswith("resnet18-100-")
    among = speed_ups([tuned(9.0, "a"), extracted(1.0, "a"), tuned(5.0, layers="head"), *runs, tuned(21.0)])
    assert [pair.pair_id == alone.pair_id for pair in among] == [False, True, False]
    assert len({pair.pair_id for pair in among}) == 3


def test_a_pair_knows_its_scores_and_the_start_of_its_workers() -> None:
    def scored(workers: int) -> SearchRun:
        run = extracted(1.0, workers=workers)
        return run._replace(metrics={**run.metrics, "score_linear_s": 0.5, "score_knn_s": 0.25, "first_batch_s": 0.2})

    (found,) = speed_ups([tuned(20.0, workers=2), scored(2)])
    assert found.scores_s == pytest.approx({"linear": 0.5, "knn": 0.25}) and found.first_batch_s == pytest.approx(0.2)
    (without,) = speed_ups([tuned(20.0, workers=0), scored(0)])
    assert without.first_batch_s is None, "nothing starts in it"


def test_two_environments_stay_two_pairs() -> None:
    found = speed_ups([tuned(20.0), tuned(10.0, environment="f"), extracted(1.0), extracted(1.0, environment="f")])
    assert [(pair.ratio.value, pair.ratio.low) for pair in found] == [(pytest.approx(20), None),
                                                                     (pytest.approx(10), None)]


MODELS = ["a", "b", "c", "d", "e", "f"]


def test_agreement_over_models_and_too_few_to_tell() -> None:
    runs = [run for rank, model in enumerate(MODELS)
            for run in (tuned(9.0, model, accuracy=rank / 10), extracted(1.0, model, score=rank * rank))]
    (found,) = agreements(runs)["all"]
    assert (found.score, found.models, found.rho) == ("score_logme", MODELS, pytest.approx(1.0))
    assert found.chance == pytest.approx(2 / 720), "of 720 orders this one and its reverse agree as strongly"
    (few,) = agreements(runs[:8])["all"]
    assert len(few.models) == 4 and few.rho is None
    assert list(agreements(runs)) == ["all"]


def test_head_only_runs_agree_for_themselves() -> None:
    head = [run for rank, model in enumerate(MODELS)
            for run in (tuned(9.0, model, accuracy=rank / 10, layers="head"), extracted(1.0, model, score=-rank))]
    (found,) = agreements(head)["head"]
    assert (found.models, found.rho, found.layers) == (MODELS, pytest.approx(-1.0), "head")
    both = agreements([*head, tuned(9.0, "a")])
    assert [(layers, len(members[0].models)) for layers, members in both.items()] == [("all", 1), ("head", 6)]


def test_sizes_are_not_mixed_in_an_agreement() -> None:
    runs = [run for model in MODELS for run in (tuned(9.0, model), extracted(1.0, model))]
    more = [run for model in MODELS[:2] for run in (tuned(9.0, model, train_images=800),
                                                    extracted(1.0, model, train_images=800))]
    found, fewer = agreements(more + runs)["all"]
    assert found.models == MODELS and found.rho is None, "all accuracies alike: nothing to rank"
    assert (found.setting, fewer.setting, fewer.models) == ("train_images=80", "train_images=800", MODELS[:2])
    (alone,) = agreements(runs)["all"]
    assert (alone.setting, alone.setting_id) == ("", found.setting_id), "a link finds it whatever else is chosen"
    assert fewer.setting_id != found.setting_id


def test_seeds_are_pooled_in_an_agreement_and_each_run_counts_once() -> None:
    """Two seeds fine-tuned, three scored, among them one that was not fine-tuned: medians over all of them."""
    runs = [run for rank, model in enumerate(MODELS) for run in (
        *(tuned(9.0, model, accuracy=rank / 10 + seed / 100, seed=seed, noisy=seed == 0) for seed in (0, 2)),
        *(extracted(1.0, model, score=rank + shift, seed=seed) for seed, shift in ((0, 0.5), (1, 0.1), (2, 0.0))))]
    (found,) = agreements(runs)["all"]
    assert found.accuracies == pytest.approx([rank / 10 + 0.01 for rank in range(6)])
    assert found.scores == pytest.approx([rank + 0.1 for rank in range(6)])
    assert (found.tuned_seeds, found.scored_seeds, found.noisy_runs) == ([0, 2], [0, 1, 2], 6)


@settings(deadline=None, max_examples=50)  # all orders of eight take a while
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=5, max_size=30))
def test_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    rho, chance = rank_correlation(a, b)
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert rho is None
    else:
        assert rho == pytest.approx(spearmanr(a, b).statistic, abs=1e-9)
        assert chance is not None and 0 <= chance <= 1
