"""Features of images without gradients, and every score of them with its seconds: the two steps of a model search."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from engine.scores import Features, score_knn, score_lda, score_linear, score_logme, score_ridge

if TYPE_CHECKING:
    import torch

    from engine.clock import Clock
    from engine.recorder import Recorder


def extract_features(model: torch.nn.Module, loader: Any, clock: Clock, device: str,
                     precision: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass in evaluation mode; features and labels stay on the device. The model is not changed."""
    import torch

    model.eval()
    load, copy = clock.phase("load_data"), clock.phase("data_to_device", on_device=True)
    infer = clock.phase("inference", on_device=True)
    features, labels = [], []
    loading = None
    with torch.inference_mode(), precision:
        for _ in range(len(loader)):
            with load:
                # The workers start inside the first wait: their start-up is part of the first batch.
                loading = loading or iter(loader)
                pixels, truth = next(loading)
            with copy:
                pixels, truth = pixels.to(device), truth.to(device)
            with infer:
                found = model(pixels)
            features.append(found)
            labels.append(truth)
            clock.end_batch(len(truth))
    # Not inference tensors: the linear score takes gradients through them.
    return torch.cat(features).float().clone(), torch.cat(labels).clone()


def record_scores(features: Features, classes: int, seed: int, device: str, recorder: Recorder) -> float:
    """Every score as metrics, each with its seconds; returns the seconds of all."""
    from engine.devices import settle

    total_s = 0.0

    def timed(name: str, score: Any) -> Any:
        nonlocal total_s
        settle(device)
        start = perf_counter()
        value = score()
        settle(device)
        seconds = perf_counter() - start
        total_s += seconds
        recorder.metric(f"score_{name}_s", seconds, "s")
        recorder.alive()
        return value

    linear = timed("linear", lambda: score_linear(features, classes, seed))
    recorder.metric("score_linear_loss", linear.loss)
    recorder.metric("score_linear_top1", linear.top1)
    recorder.metric("score_ridge_top1", timed("ridge", lambda: score_ridge(features, classes)))
    recorder.metric("score_lda_top1", timed("lda", lambda: score_lda(features, classes)))
    recorder.metric("score_knn_top1", timed("knn", lambda: score_knn(features)))
    recorder.metric("score_logme", timed("logme", lambda: score_logme(features, classes)))
    return total_s
