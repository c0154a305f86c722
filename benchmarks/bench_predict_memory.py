"""Predicted memory of a training step against the allocator's measured peak, for combinations of model and method.

The prediction runs on fake tensors, the measurement for real under torch's profiler: two instruments. Each in a process
of its own. Prints one JSON document; `within` says whether every error is at most 10 %, every prediction takes less
than 10 s, and resident memory grows by less than 200 MB while predicting.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.predict_memory import predict_memory
from engine.training_peak import measure_training_peak
from engine.tries import try_alone

ALLOWED = 0.10
ALLOWED_S = 10.0
ALLOWED_GROWTH_BYTES = 200_000_000
COMBINATIONS = (
    ("resnet18", 8, "plain", 224), ("resnet18", 8, "checkpoint", 224), ("mobilenet_v2", 4, "plain", 224),
    ("mobilenet_v2", 4, "checkpoint", 224), ("vit_b_16", 4, "plain", 224), ("vit_b_16", 4, "checkpoint", 224),
    ("bert", 8, "plain", 128), ("bert", 8, "checkpoint", 128), ("revnet_3", 2, "plain", 224),
    ("revnet_3", 2, "reversible", 224), ("revnet_18", 2, "reversible", 112),
)


def predict(combination: tuple[Any, ...]) -> dict[str, Any]:
    """With what resident memory grew by while predicting."""
    import torch
    import torch._subclasses.fake_tensor

    from engine.training_peak import _resident_peak_bytes

    torch.set_num_threads(1)
    if combination[0] in ("bert", "roberta"):
        import transformers
        transformers.BertModel, transformers.RobertaModel  # noqa: B018  (they are imported when first named)
    before = _resident_peak_bytes()
    answer = predict_memory(*combination)._asdict()
    return {**answer, "grew_bytes": _resident_peak_bytes() - before}


def measure(combination: tuple[Any, ...]) -> Any:
    import torch

    torch.set_num_threads(1)
    model, batch_size, method, size = combination
    return measure_training_peak(model, batch_size, method, size, "sgd_momentum", "fp32", "cpu")


def main() -> None:
    import torch  # noqa: F401  (once, before the processes are forked; nothing is computed here)
    import torchvision  # noqa: F401

    rows = []
    for combination in COMBINATIONS:
        predicted = try_alone(partial(predict, combination), 600, lambda: None)
        measured = try_alone(partial(measure, combination), 600, lambda: None)
        if predicted.outcome != "done" or measured.outcome != "done":
            sys.exit(f"{combination}: {predicted.reason or measured.reason}")
        peak = measured.answer
        rows.append({"model": combination[0], "batch_size": combination[1], "method": combination[2],
                     "size": combination[3], "predicted_bytes": predicted.answer["peak_bytes"],
                     "measured_bytes": peak.allocated_bytes, "resident_bytes": peak.resident_bytes,
                     "error": round(predicted.answer["peak_bytes"] / peak.allocated_bytes - 1, 4),
                     "prediction_s": round(predicted.answer["seconds"], 2),
                     "prediction_grew_bytes": predicted.answer["grew_bytes"]})
        print(rows[-1], file=sys.stderr)
    # Seconds are those of the wall clock: a busy machine makes them longer than predicting takes.
    print(json.dumps({"benchmark": "predict_memory", "rows": rows, "load_average": os.getloadavg()[0],
                      "within": all(abs(row["error"]) <= ALLOWED and row["prediction_s"] < ALLOWED_S
                                    and row["prediction_grew_bytes"] < ALLOWED_GROWTH_BYTES for row in rows)},
                     indent=1))


if __name__ == "__main__":
    main()
