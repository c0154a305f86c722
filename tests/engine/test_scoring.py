"""Closed-form scores: many heads at once give what one at a time by plain linear algebra gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from engine.scoring import PENALTY, held_out, score_heads


def made_up(models: int, items: int, width: int, classes: int, noise: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Features that tell the classes apart, the less the more noise."""
    source = torch.Generator().manual_seed(1)
    labels = torch.arange(items) % classes
    centres = torch.randn(classes, width, generator=source)
    return torch.stack([centres[labels] + level * torch.randn(items, width, generator=source)
                        for level in noise[:models]]), labels


def test_one_item_in_five_is_held_out_and_no_class_is_left_out() -> None:
    for items in (5, 32, 64, 1000):
        held = held_out(items)
        assert items / 5 - 1.5 <= int(held.sum()) <= items / 5 + 1.5
    for classes in (2, 3, 5, 10):
        assert len(set((torch.arange(1000) % classes)[held_out(1000)].tolist())) == classes


def test_ridge_is_least_squares_with_a_penalty() -> None:
    features, labels = made_up(3, 60, 4, 3, [0.5, 1.0, 4.0])
    found = score_heads(features, labels, 3, "ridge")
    held = held_out(60).numpy()
    one_hot = np.eye(3)[labels.numpy()]
    for number in range(3):
        known, asked = (features[number].double().numpy()[chosen] for chosen in (~held, held))
        asked = asked - known.mean(0)
        known = known - known.mean(0)
        mean = one_hot[~held].mean(0)
        gram = known.T @ known
        gram += PENALTY * np.trace(gram) / 4 * np.eye(4)
        guessed = asked @ np.linalg.solve(gram, known.T @ (one_hot[~held] - mean)) + mean
        explained = 1 - ((guessed - one_hot[held]) ** 2).sum() / ((one_hot[held] - mean) ** 2).sum()
        assert found.score[number] == pytest.approx(explained, abs=1e-9)
        assert found.top1[number] == pytest.approx(np.mean(guessed.argmax(1) == labels.numpy()[held]))


def test_lda_is_the_posterior_of_one_gaussian_per_class() -> None:
    """By the densities themselves: class means, one covariance for all with the penalty on its diagonal, and class
    shares as prior. Classes of different sizes, or the prior would not show."""
    features, _ = made_up(3, 90, 4, 3, [0.5, 1.0, 4.0])
    labels = torch.tensor([0, 0, 0, 1, 0, 1, 2, 0, 1] * 10)
    features[:, labels == 2] += 1.5
    found = score_heads(features, labels, 3, "lda")
    held, answers = held_out(90).numpy(), labels.numpy()
    for number in range(3):
        known, asked = (features[number].double().numpy()[chosen] for chosen in (~held, held))
        groups = [known[answers[~held] == label] for label in range(3)]
        covariance = sum((group - group.mean(0)).T @ (group - group.mean(0)) for group in groups) / len(known)
        covariance += PENALTY * np.trace(covariance) / 4 * np.eye(4)
        joint = np.stack([np.log(len(group) / len(known)) + multivariate_normal.logpdf(asked, group.mean(0), covariance)
                          for group in groups], axis=1)
        posterior = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
        right = answers[held]
        assert found.score[number] == pytest.approx(posterior[np.arange(len(right)), right].mean(), abs=1e-9)
        assert found.top1[number] == pytest.approx(np.mean(joint.argmax(1) == right))
    assert 0 < found.top1[2] < found.top1[0]


@pytest.mark.parametrize("scorer", ["ridge", "lda"])
def test_features_that_tell_classes_apart_score_higher(scorer: str) -> None:
    features, labels = made_up(4, 400, 6, 5, [0.3, 1.0, 3.0, 50.0])
    found = score_heads(features, labels, 5, scorer)  # type: ignore[arg-type]
    assert found.score == sorted(found.score, reverse=True)
    assert found.top1[0] > 0.95
    assert found.top1[3] < 0.4


@pytest.mark.parametrize("scorer", ["ridge", "lda"])
def test_scores_do_not_depend_on_who_is_scored_beside(scorer: str) -> None:
    features, labels = made_up(4, 50, 6, 3, [0.3, 1.0, 3.0, 9.0])
    together = score_heads(features, labels, 3, scorer)  # type: ignore[arg-type]
    alone = [score_heads(features[number : number + 1], labels, 3, scorer).score[0]  # type: ignore[arg-type]
             for number in range(4)]
    assert together.score == pytest.approx(alone, abs=1e-9)


def test_constant_features_and_few_items_still_have_a_score() -> None:
    for scorer in ("ridge", "lda"):
        found = score_heads(torch.ones(2, 5, 8), torch.tensor([0, 1, 0, 1, 0]), 2, scorer)  # type: ignore[arg-type]
        assert all(np.isfinite(found.score))
