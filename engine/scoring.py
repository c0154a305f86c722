"""Closed-form scores of features: how well a linear head on them would do, for many models at once, without training.

One item in five is held out. A score is higher for better models; all arithmetic is in double precision, so that the
size of a chunk does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from engine.search_plan import HELD_OUT_EVERY

if TYPE_CHECKING:
    import torch

Scorer = Literal["ridge", "lda"]
PENALTY = 1e-2
"""Added to the mean square of a feature: few items and many features must not make a head that fits noise."""


class HeldOut(NamedTuple):
    """Per model: the score that ranks, and the share of held-out items whose class is right."""

    score: list[float]
    top1: list[float]


def score_heads(features: torch.Tensor, labels: torch.Tensor, classes: int, scorer: Scorer) -> HeldOut:
    """`features`: models x items x width. One batched factorisation for all heads."""
    import torch

    held = held_out(features.shape[1]).to(features.device)
    features = features.to(torch.float64)
    known, asked = features[:, ~held], features[:, held]
    targets = torch.nn.functional.one_hot(labels, classes).to(torch.float64)
    centre = known.mean(1, keepdim=True)
    known, asked = known - centre, asked - centre
    fit = _ridge if scorer == "ridge" else _lda
    guessed = fit(known, asked, targets[~held])
    answer = targets[held]
    if scorer == "ridge":
        # The share of the held-out variance that is explained.
        lost = (guessed - answer).square().sum((1, 2))
        score = 1 - lost / (answer - targets[~held].mean(0)).square().sum().clamp_min(1e-12)
    else:
        score = (guessed.log_softmax(2) * answer).sum((1, 2)) / answer.shape[0]
    right = (guessed.argmax(2) == labels[held]).to(torch.float64).mean(1)
    return HeldOut(score.tolist(), right.tolist())


def held_out(items: int) -> torch.Tensor:
    """One in five, spread by the golden ratio: classes often take turns, and a fixed step would always hit the same."""
    import torch

    return torch.arange(items, dtype=torch.float64) * 0.6180339887498949 % 1 < 1 / HELD_OUT_EVERY


def _ridge(known: torch.Tensor, asked: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Least squares on the one-hot classes."""
    mean = targets.mean(0)
    weights = _solve(known.mT @ known, known.mT @ (targets - mean), known.shape[1])
    return asked @ weights + mean


def _lda(known: torch.Tensor, asked: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Linear discriminants: one mean per class, one covariance for all; gives log-likelihoods up to a constant."""
    counts = targets.sum(0).clamp_min(1)
    means = (known.mT @ targets / counts).mT
    inside = known - (targets @ means)
    weights = _solve(inside.mT @ inside, means.mT * known.shape[1], known.shape[1])
    prior = (counts / counts.sum()).log()
    return asked @ weights - 0.5 * (means @ weights).diagonal(dim1=1, dim2=2).unsqueeze(1) + prior


def _solve(gram: torch.Tensor, right: torch.Tensor, items: int) -> torch.Tensor:
    import torch

    scale = gram.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-12 * items)
    ridge = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device) * (PENALTY * scale)[:, None, None]
    return torch.cholesky_solve(right, torch.linalg.cholesky(gram + ridge))
