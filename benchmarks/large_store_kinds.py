"""What the sweeps of benchmarks/large_store.py asked and found: one kind after the other, every question of the lab.

Figures are made up, but of the size that real runs have, and they differ between cells.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A sweep that people launch again and again."""

    experiment: str
    grid: dict[str, list[Any]]
    fixed: dict[str, Any]


class Found(NamedTuple):
    """A metric of a cell. Seconds are given as a share of the measured window, bytes get the spread of the runs."""

    name: str
    value: float
    unit: str | None = None


SMALL = {"image_size": 64}
FIVE_MODELS = {"model": ["resnet18", "resnet34", "mobilenet_v2", "adjusted_resnet18", "revnet_3"],
               "train_images": [32, 96]}
TUNED = {"image_size": 32, "batch_size": 16, "workers": 0, "threads": 1}
KINDS = [
    Kind("inference", {"batch_size": [8, 32], "workers": [0, 1, 2]}, SMALL),
    Kind("loading", {"format": ["jpeg", "tensor_files", "memmap"], "workers": [0, 2], "fetch_threads": [1, 8]},
         {**SMALL, "consume_s": 0.01}),
    Kind("inference", {"model": ["resnet18", "resnet50", "mobilenet_v2"], "batch_size": [16, 64]}, SMALL),
    Kind("memory", {"model": ["revnet_3", "revnet_9", "revnet_18", "adjusted_resnet18", "adjusted_resnet34"],
                    "method": ["plain", "checkpoint"]}, SMALL),
    Kind("inference", {"threads": [1, 2, 4], "workers": [0, 2, 4]}, SMALL),
    Kind("training", {"method": ["baseline", "checkpointing", "ddp", "fsdp"], "devices": [1, 2]},
         {"norm": "group", "image_size": 32, "workers": 1}),
    Kind("inference", {"image_size": [64, 128, 224], "precision": ["fp32", "bf16"]}, {}),
    Kind("finetune", FIVE_MODELS, {**TUNED, "epochs": 4}),
    Kind("extract", FIVE_MODELS, TUNED),
    Kind("bottleneck", {"arrangement": ["joint", "separate"], "part": ["last_50%", "last_3_blocks"]}, SMALL),
    Kind("inference", {"channels_last": [False, True], "compile": [False, True], "batch_size": [32, 128]}, SMALL),
    Kind("bottleneck", {"part": ["full", "last_50%", "last_25%", "last_3_blocks", "last_1_block"],
                        "items": [96, 384]}, SMALL),
    Kind("search", {"strategy": ["exhaustive", "halving", "shared_prefix", "shared_prefix_halving"],
                    "snapshots": ["top_layers", "quarter", "half"]}, {"models": 16, "items": 160}),
    Kind("loading", {"latency_s": [0.0, 0.002, 0.02], "fetch_threads": [1, 8]}, {**SMALL, "workers": 2,
                                                                                 "consume_s": 0.01}),
    Kind("inference", {"seed": [0, 1, 2, 3]}, SMALL),
    Kind("max_batch", {"model": ["resnet18", "mobilenet_v2"], "mode": ["inference", "training"]}, SMALL),
]
LARGEST = Kind("inference", {"model": ["resnet18", "resnet50", "vit_b_16", "eff_net_v2_s"],
                             "batch_size": [1, 8, 32, 64, 128, 256], "workers": [0, 1, 2, 4, 8]}, SMALL)
TRAINS = ["load_data", "data_to_device", "forward", "backward", "optimizer"]
RUNS_A_MODEL = ["load_data", "data_to_device", "inference"]
PHASES = {"inference": RUNS_A_MODEL, "loading": ["load_data", "consume"], "memory": TRAINS[2:], "training": TRAINS,
          "finetune": TRAINS, "extract": RUNS_A_MODEL, "bottleneck": RUNS_A_MODEL,
          "search": ["load_state", "data_to_device", "inference", "score"], "max_batch": []}
"""In the order of a batch. Where data is loaded, that share falls with the workers."""
TIMES_AS_LONG = {"finetune": 20.0, "search": 0.5}
"""A batch of these, against one of a plain pass over images."""


def took_effect(kind: Kind, asked: dict[str, Any], batches: int) -> dict[str, Any]:
    """What such a run says about itself, besides the device."""
    size, devices = asked.get("batch_size", 32), asked.get("devices", 1)
    said = {"threads": asked["threads"] or 2, "device": "cpu", "timing": "host"}
    if "workers" in asked:
        said |= {"workers": asked["workers"], "prefetch_factor": 2, "pin_memory": False, "loader_context": "fork"}
    match kind.experiment:
        case "inference":
            said |= {"batches": batches, "images": batches * size}
        case "loading":
            said |= {"batches_per_epoch": batches, "images": batches * size, "fetch_threads": asked["fetch_threads"]}
        case "training":
            said |= {"devices": devices, "batch_size": size, "global_batch_size": size * devices, "val_images": 32,
                     "train_images": batches * size * devices, "batches_per_epoch": batches, "batch_norms": 0}
        case "finetune" | "extract":
            said |= {"val_images": asked["train_images"] // 4, "classes": 10}
        case "bottleneck":
            said |= {"runs": f"{asked['part']} of {asked['model']}"}
        case "search":
            said |= {"models": asked["models"], "items": asked["items"]}
        case "max_batch":
            said |= {"budget_bytes": 2**30}
    return said


def metrics_of(kind: Kind, asked: dict[str, Any], place: int) -> list[Found]:
    """What such a run finds besides its time, its batches and its items."""
    better = place % 7 / 20
    match kind.experiment:
        case "memory":
            depth = int(re.findall(r"\d+", asked["model"])[0])
            saved = 4e6 * depth if asked["method"] == "plain" else 1e7
            return [Found("peak_memory_bytes", saved + 6e7, "bytes"), Found("saved_activations_bytes", saved, "bytes"),
                    Found("predicted_peak_bytes", saved + 6.2e7, "bytes"), Found("parameters", 1.6e5 * depth),
                    Found("resident_growth_bytes", saved + 8e7, "bytes")]
        case "training":
            return [Found("actual_epoch_s", 1.0, "s"), Found("first_loss", 2.3), Found("last_loss", 0.5),
                    Found("val_accuracy", 0.5 + better)]
        case "finetune":
            return [Found("finetune_s", 1.0, "s"), Found("train_s", 0.9, "s"), Found("validate_s", 0.1, "s"),
                    Found("val_accuracy", 0.5 + better)]
        case "extract":
            return [Found("score_s", 0.2, "s"), *(Found(f"score_{name}_top1", 0.3 + better)
                                                  for name in ("linear", "ridge", "lda", "knn")),
                    Found("score_logme", -1.5 + better)]
        case "bottleneck":
            return [Found("init_model_s", 0.05, "s"), Found("load_state_s", 0.1, "s"),
                    Found("load_state_computed_s", 0.07, "s"), Found("model_to_device_s", 0.01, "s"),
                    Found("score_s", 0.3, "s"), Found("state_cached_share", 1.0), Found("state_bytes", 4.5e7, "bytes")]
        case "search":
            pairs = asked["models"] * asked["items"] * asked["blocks"]
            done = pairs // (1 + asked["strategy"].count("halving") + 2 * asked["strategy"].count("shared"))
            return [Found("block_items", done), Found("bound_block_items", done), Found("block_loads", done // 160),
                    Found("exhaustive_block_items", pairs), Found("resumed_models", 0),
                    Found("activation_peak_bytes", 9e6, "bytes"), Found("predicted_peak_bytes", 9.2e6, "bytes"),
                    Found("kept_peak_bytes", 1e6, "bytes"), Found("block_item_s", 0.9 / done, "s"),
                    Found("block_call_s", 1e-5, "s"), Found("best_top1", 0.4 + better)]
        case "max_batch":
            largest = 64 * (1 + place)
            return [Found("max_batch_size", largest, "images"), Found("too_large_batch_size", largest + 1, "images"),
                    Found("lower_bound_only", 0), Found("tries", 8), Found("peak_memory_bytes", 1e9, "bytes")]
    return []
