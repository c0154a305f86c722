"""Scores of a model from its features: how well would it do on this data, without training it?

Each takes features as rows and labels, in torch, on the device the features are on. Closed forms are in float64.
LogME: You et al., "LogME: practical assessment of pre-trained models for transfer learning", ICML 2021.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

LINEAR_RATE, LINEAR_EPOCHS = 0.1, 100
RIDGE = 0.1
"""Penalty on the weights, per training item."""
LDA_SHRINKAGE = 0.1
"""How far the common covariance is drawn towards a multiple of the identity: it has no inverse with few items."""
NEIGHBOURS = 5
LOGME_STEPS = 200
GOLDEN = (math.sqrt(5) - 1) / 2


class Features(NamedTuple):
    """Rows are items. The validation part is held out: no score learns from it."""

    train: Tensor
    train_labels: Tensor
    val: Tensor
    val_labels: Tensor

    def standardised(self) -> Features:
        """Each feature to mean 0 and deviation 1 over the training items; one that never varies becomes 0."""
        mean, deviation = self.train.mean(0), self.train.std(0, correction=0)
        scale = deviation.where(deviation > 0, 1.0)
        return self._replace(train=(self.train - mean) / scale, val=(self.val - mean) / scale)


class Linear(NamedTuple):
    loss: float
    top1: float


def score_linear(features: Features, classes: int, seed: int = 0) -> Linear:
    """One linear layer trained on the features: SGD, cross entropy, one step over all items per epoch."""
    import torch
    from torch.nn.functional import cross_entropy

    # Made on the CPU, so that a seed means the same on every device.
    layer = torch.nn.Linear(features.train.shape[1], classes)
    torch.nn.init.normal_(layer.weight, std=0.01, generator=torch.Generator().manual_seed(seed))
    torch.nn.init.zeros_(layer.bias)
    layer = layer.to(features.train.device, features.train.dtype)
    optimizer = torch.optim.SGD(layer.parameters(), lr=LINEAR_RATE)
    with torch.enable_grad():
        for _ in range(LINEAR_EPOCHS):
            optimizer.zero_grad(set_to_none=True)
            cross_entropy(layer(features.train), features.train_labels).backward()
            optimizer.step()
    with torch.no_grad():
        held_out = layer(features.val)
        return Linear(float(cross_entropy(held_out, features.val_labels)), _top1(held_out, features.val_labels))


def score_ridge(features: Features, classes: int) -> float:
    """Top-1 on held-out items of ridge regression on one-hot labels, with an intercept that is not penalised."""
    import torch

    train, val, targets = _double(features, classes)
    mean, targets_mean = train.mean(0), targets.mean(0)
    centred = train - mean
    penalty = RIDGE * len(train) * torch.eye(train.shape[1], dtype=train.dtype, device=train.device)
    weights = torch.linalg.solve(centred.T @ centred + penalty, centred.T @ (targets - targets_mean))
    return _top1((val - mean) @ weights + targets_mean, features.val_labels)


def score_lda(features: Features, classes: int) -> float:
    """Top-1 on held-out items of linear discriminant analysis; classes without training items are never predicted."""
    import torch

    train, val, targets = _double(features, classes)
    counts = targets.sum(0)
    means = (targets.T @ train) / counts.clamp(min=1)[:, None]
    within = train - targets @ means
    covariance = within.T @ within / len(train)
    width = train.shape[1]
    spread = covariance.trace() / width
    identity = torch.eye(width, dtype=train.dtype, device=train.device)
    # A spread of 0 (all items of a class alike) would leave nothing to invert.
    drawn = (1 - LDA_SHRINKAGE) * covariance + LDA_SHRINKAGE * (spread if float(spread) > 0 else 1.0) * identity
    directions = torch.linalg.solve(drawn, means.T)
    offsets = (counts / len(train)).log() - 0.5 * (means * directions.T).sum(1)
    return _top1(val @ directions + offsets, features.val_labels)


def score_knn(features: Features, neighbours: int = NEIGHBOURS) -> float:
    """Top-1 on held-out items by the most frequent label among the nearest training items (Euclidean); of labels that
    are equally frequent the lowest is taken."""
    import torch

    nearest = torch.cdist(features.val.double(), features.train.double()).topk(
        min(neighbours, len(features.train)), largest=False).indices
    found = features.train_labels[nearest].mode(1).values
    return float((found == features.val_labels).double().mean())


def score_logme(features: Features, classes: int) -> float:
    """The highest log evidence per item of a linear model with Gaussian weights (precision alpha) and noise (precision
    beta), averaged over the classes' 0/1 labels. Uses the training items only, as there is nothing to hold out for.

    In the basis of the features' singular vectors the labels have variance (t + s) / alpha with t = alpha / beta, so
    alpha has a closed form for each t and only one number per class is searched for. That finds the maximum also with
    more features than items, where the paper's fixed point creeps towards infinite precision.
    """
    import torch

    train, _, targets = _double(features, classes)
    targets = targets[:, targets.sum(0) > 0]  # a class without items has no evidence
    items = len(train)
    left, singular, _ = torch.linalg.svd(train, full_matrices=False)
    squares = singular.square()
    explained = (left.T @ targets).square()
    # What no feature reaches: has the variance of the noise alone.
    rest = (targets.square().sum(0) - explained.sum(0)).clamp(min=0)
    free = items - len(squares)
    scale = float(squares.mean()) or 1.0

    def evidence(log_t: Tensor) -> Tensor:
        t = log_t.exp() * scale
        variance = t + squares[:, None]
        mean_square = ((explained / variance).sum(0) + rest / t) / items
        logs = variance.log().sum(0) + free * t.log()
        return -0.5 * (math.log(2 * math.pi) + 1 + mean_square.log() + logs / items)

    low, high = math.log(1e-9), math.log(1e9)
    step = (high - low) / LOGME_STEPS
    ones = torch.ones(targets.shape[1], dtype=train.dtype, device=train.device)
    tried = torch.stack([evidence((low + index * step) * ones) for index in range(LOGME_STEPS + 1)])
    best = low + tried.argmax(0) * step
    left_end, right_end = best - step, best + step
    for _ in range(60):
        part = GOLDEN * (right_end - left_end)
        inner_left, inner_right = right_end - part, left_end + part
        better = evidence(inner_left) > evidence(inner_right)
        left_end, right_end = left_end.where(better, inner_left), inner_right.where(better, right_end)
    return float(evidence((left_end + right_end) / 2).mean())


def _double(features: Features, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    from torch.nn.functional import one_hot

    return features.train.double(), features.val.double(), one_hot(features.train_labels, classes).double()


def _top1(values: Tensor, labels: Tensor) -> float:
    return float((values.argmax(1) == labels).double().mean())
