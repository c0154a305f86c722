"""Scores against references computed another way, in numpy and scipy, on small data."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from engine.scores import (
    LDA_SHRINKAGE,
    RIDGE,
    Features,
    score_knn,
    score_lda,
    score_linear,
    score_logme,
    score_ridge,
)

CLASSES = 3
Arrays = tuple[Any, Any, Any, Any]


def blobs(items: int, width: int, apart: float, seed: int = 0) -> Arrays:
    """Three clouds in many dimensions: features and labels for training, the same held out."""
    chance = np.random.default_rng(seed)
    labels = np.arange(2 * items) % CLASSES
    centres = chance.normal(size=(CLASSES, width)) * apart
    rows = centres[labels] + chance.normal(size=(2 * items, width)) * (1 + np.arange(width) % 3)
    return rows[:items], labels[:items], rows[items:], labels[items:]


def features(arrays: Arrays) -> Features:
    import torch

    return Features(*(torch.tensor(array) for array in arrays))


SHAPES = [(40, 6, 0.7), (30, 50, 0.7), (25, 4, 0.0)]
"""Items, width, distance: more items than features, fewer, and nothing to tell apart."""


@pytest.mark.parametrize("shape", SHAPES)
def test_ridge_is_the_solution_of_the_penalised_least_squares(shape: Any) -> None:
    """The same weights as ordinary least squares on rows extended by the penalty."""
    rows, labels, val, val_labels = arrays = blobs(*shape)
    targets = np.eye(CLASSES)[labels]
    mean, targets_mean = rows.mean(0), targets.mean(0)
    extended = np.vstack([rows - mean, np.sqrt(RIDGE * len(rows)) * np.eye(rows.shape[1])])
    weights = np.linalg.lstsq(extended, np.vstack([targets - targets_mean, np.zeros((rows.shape[1], CLASSES))]))[0]
    expected = np.mean(((val - mean) @ weights + targets_mean).argmax(1) == val_labels)
    assert score_ridge(features(arrays), CLASSES) == pytest.approx(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_lda_picks_the_class_of_highest_gaussian_density(shape: Any) -> None:
    rows, labels, val, val_labels = arrays = blobs(*shape)
    means = np.stack([rows[labels == c].mean(0) for c in range(CLASSES)])
    common = sum((rows[labels == c] - means[c]).T @ (rows[labels == c] - means[c]) for c in range(CLASSES)) / len(rows)
    width = rows.shape[1]
    common = (1 - LDA_SHRINKAGE) * common + LDA_SHRINKAGE * np.trace(common) / width * np.eye(width)
    inverse = np.linalg.inv(common)
    densities = np.array([[np.log(np.mean(labels == c)) - 0.5 * (row - means[c]) @ inverse @ (row - means[c])
                           for c in range(CLASSES)] for row in val])
    assert score_lda(features(arrays), CLASSES) == pytest.approx(np.mean(densities.argmax(1) == val_labels))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("neighbours", [1, 5])
def test_knn_takes_the_most_frequent_label_nearby(shape: Any, neighbours: int) -> None:
    rows, labels, val, val_labels = arrays = blobs(*shape)
    right = 0
    for row, label in zip(val, val_labels, strict=True):
        near = labels[np.argsort(((rows - row) ** 2).sum(1))[:neighbours]]
        right += int(np.bincount(near, minlength=CLASSES).argmax() == label)
    assert score_knn(features(arrays), neighbours) == pytest.approx(right / len(val))


def test_knn_with_fewer_items_than_neighbours() -> None:
    # All three are neighbours, one of each class: the lowest label wins everywhere.
    assert score_knn(features(blobs(3, 4, 50.0)), 5) == pytest.approx(1 / 3)


def evidence(alpha: float, beta: float, rows: Any, target: Any) -> float:
    """Equation of the paper, term by term, with the dense matrices."""
    items, width = rows.shape
    precision = alpha * np.eye(width) + beta * rows.T @ rows
    mean = beta * np.linalg.solve(precision, rows.T @ target)
    return float(width / 2 * np.log(alpha) + items / 2 * np.log(beta) - items / 2 * np.log(2 * np.pi)
                 - beta / 2 * np.sum((rows @ mean - target) ** 2) - alpha / 2 * mean @ mean
                 - 0.5 * np.linalg.slogdet(precision)[1])


@pytest.mark.parametrize("shape", [(40, 6, 0.7), (40, 6, 0.0), (20, 30, 0.7), (60, 2, 3.0)])
def test_logme_is_the_maximum_of_the_papers_evidence(shape: Any) -> None:
    rows, labels, _, _ = arrays = blobs(*shape)
    best = []
    for c in range(CLASSES):
        target = (labels == c).astype(float)
        found = [minimize(lambda logs, t=target: -evidence(*np.exp(np.clip(logs, -25, 25)), rows, t), start,
                          method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 5000})
                 for start in product((-3.0, 1.0, 5.0), (-2.0, 2.0, 6.0))]
        best.append(-min(result.fun for result in found) / len(rows))
    assert score_logme(features(arrays), CLASSES) == pytest.approx(np.mean(best), abs=1e-5)


def test_logme_ranks_features_that_say_more_higher() -> None:
    ranked = [score_logme(features(blobs(90, 8, apart)), CLASSES) for apart in (0.0, 0.5, 1.0, 3.0)]
    assert ranked == sorted(ranked)


def test_linear_follows_gradient_descent_on_cross_entropy() -> None:
    """The same hundred steps by hand, from the same start."""
    import torch

    rows, labels, val, val_labels = arrays = blobs(40, 6, 0.7)
    start = torch.empty(CLASSES, 6)
    torch.nn.init.normal_(start, std=0.01, generator=torch.Generator().manual_seed(4))
    weights, bias, targets = start.double().numpy().copy(), np.zeros(CLASSES), np.eye(CLASSES)[labels]

    def softmax(values: Any) -> Any:
        shifted = np.exp(values - values.max(1, keepdims=True))
        return shifted / shifted.sum(1, keepdims=True)

    for _ in range(100):
        error = (softmax(rows @ weights.T + bias) - targets) / len(rows)
        weights, bias = weights - 0.1 * error.T @ rows, bias - 0.1 * error.sum(0)
    predicted = softmax(val @ weights.T + bias)
    found = score_linear(features(arrays), CLASSES, seed=4)
    assert found.top1 == pytest.approx(np.mean(predicted.argmax(1) == val_labels))
    assert found.loss == pytest.approx(-np.mean(np.log(predicted[np.arange(len(val)), val_labels])), rel=1e-5)


def test_a_head_with_more_outputs_than_classes_scores_the_same_kind_of_thing() -> None:
    arrays = features(blobs(60, 8, 3.0))
    assert score_linear(arrays, 100).top1 > 0.9
    assert score_lda(arrays, 100) == score_lda(arrays, CLASSES)
    assert score_ridge(arrays, 100) == score_ridge(arrays, CLASSES)
    assert score_logme(arrays, 100) == pytest.approx(score_logme(arrays, CLASSES))


def test_standardised_features_have_mean_0_and_deviation_1_and_tiny_ones_count_alike() -> None:
    import torch

    arrays = features(blobs(60, 8, 1.0))
    shrunk = arrays._replace(train=arrays.train * 1e-9, val=arrays.val * 1e-9)
    assert score_linear(shrunk.standardised(), CLASSES).top1 == score_linear(arrays.standardised(), CLASSES).top1
    constant = arrays._replace(train=torch.ones_like(arrays.train), val=torch.ones_like(arrays.val)).standardised()
    assert bool((constant.train == 0).all())
    for score in (score_ridge, score_lda, score_logme):
        assert np.isfinite(score(constant, CLASSES))
    done = arrays.standardised().train
    torch.testing.assert_close(done.mean(0), torch.zeros(8, dtype=done.dtype), atol=1e-9, rtol=0)
    torch.testing.assert_close(done.std(0, correction=0), torch.ones(8, dtype=done.dtype))
