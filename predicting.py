"""Predicted memory on pages: what a cell of an experiment would ask, and the wait for its answer. The answers come from
a helper process, since this one never loads torch; what is known already is shown at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast, get_args

import streamlit as st
from pydantic import BaseModel

from analysis.memory_limits import CURVE_SIZES, FittingBatch, largest_batch
from begin import Lab
from engine.machine import memory_limit_bytes
from engine.memory_methods import Method
from engine.models import MODELS
from engine.nvml import Gpus
from engine.params import InputError
from engine.predict_memory import input_problem
from engine.predictions import Asked, Predictor, key_of, open_predictor, read_kept
from engine.training_step import OptimizerName
from ui.frame import VIEWER, safe
from ui.memory_limits_view import choose_wanted, draw_curve, draw_pending
from ui.units import size

EXPERIMENTS = ("memory", "training", "finetune")
TRAINING_METHODS = {"checkpointing": "checkpoint"}
"""The training experiment's names. On several devices each holds about what the plain method needs: FSDP less."""
MOST_SETTINGS = 12


class Need(NamedTuple):
    """The largest peak among some cells, and how many settings were looked at."""

    asked: Asked
    peak_bytes: int
    looked_at: int
    settings: int


def ask_for(model: str, batch_size: int, method: str, pixels: int, optimizer: str = "sgd_momentum",
            precision: str = "fp32", blocks: int = 1) -> Asked:
    """The question as the helper takes it, with the same key however a page came to it."""
    return {"model": model, "batch_size": batch_size, "method": method, "size": pixels, "optimizer": optimizer,
            "precision": precision, "blocks_per_checkpoint": blocks if method in ("checkpoint", "selective") else 1}


def ask_for_cell(params: BaseModel) -> Asked:
    """A cell of one of EXPERIMENTS; text models have tokens instead of pixels."""
    given: dict[str, Any] = params.model_dump(mode="json")
    text = MODELS[given["model"]].kind == "text"
    method = given.get("method", "plain")
    if given.get("checkpoint_parallel") and method != "baseline":
        method = "checkpointing"
    if "devices" in given:
        method = TRAINING_METHODS.get(method, "plain")
    batch_size = getattr(params, "device_batch_size", given["batch_size"])
    return ask_for(given["model"], batch_size, method, given["tokens"] if text else given["image_size"],
                   given.get("optimizer", "sgd_momentum"), given.get("precision", "fp32"),
                   given.get("blocks_per_checkpoint", 1))


def largest_questions(cells: Iterable[BaseModel]) -> tuple[list[Asked], int]:
    """Of each setting the largest batch, the ones with the most pixels first; and how many settings there are."""
    largest: dict[str, Asked] = {}
    for cell in cells:
        asked = ask_for_cell(cell)
        key = key_of({**asked, "batch_size": 0})
        if key not in largest or asked["batch_size"] > largest[key]["batch_size"]:
            largest[key] = asked
    ordered = sorted(largest.values(), key=lambda asked: -asked["batch_size"] * asked["size"] ** 2)
    return ordered[:MOST_SETTINGS], len(ordered)


def known_need(lab: Lab, questions: list[Asked], settings: int) -> Need | None:
    """From kept answers alone; None while one is missing."""
    kept = read_kept(lab.home)
    peaks = [(kept[key_of(asked)], asked) for asked in questions if key_of(asked) in kept]
    if not questions or len(peaks) < len(questions):
        return None
    peak, asked = max(peaks, key=lambda pair: pair[0])
    return Need(asked, peak, len(questions), settings)


def predict_with_progress(lab: Lab, work: Callable[[Callable[[Asked], int]], Any], expected: int) -> bool:
    """Run `work` with a function that predicts; the page says that it is pending. Whether it came to its end."""
    if lab.viewer:
        st.error(VIEWER)
        return False
    bar = st.progress(0.0, text="Prediction pending: a helper process loads torch first")
    done = 0
    try:
        with open_predictor(lab.home) as predictor:
            def ask(asked: Asked) -> int:
                nonlocal done
                peak = _answer(predictor, asked)
                done += 1
                bar.progress(min(1.0, done / max(expected, done)), text=f"Prediction pending: {done} answered")
                return peak

            work(ask)
    except InputError as problem:
        st.warning(safe(problem), icon=":material/block:")
        return False
    finally:
        bar.empty()
    return True


def _answer(predictor: Predictor, asked: Asked) -> int:
    if problem := input_problem(asked["model"], asked["method"], asked["size"]):
        raise InputError(problem)
    return predictor.peak_bytes(asked)


def draw_prediction(lab: Lab, experiment: str, cells: list[Any], gpus: Gpus) -> None:
    """On Launch: the largest cell's need beside what this machine has."""
    if experiment not in EXPERIMENTS:
        return
    questions, settings = largest_questions(cells)
    need = known_need(lab, questions, settings)
    if need is None:
        clicked = st.button("Predict its memory", icon=":material/memory:", disabled=lab.viewer, key="predict",
                            help=f"Of up to {MOST_SETTINGS} settings, the largest batch of each: some seconds.")
        if not clicked or not predict_with_progress(
                lab, lambda ask: [ask(asked) for asked in questions], len(questions)):
            return
        need = known_need(lab, questions, settings)
    if need:
        on_gpu = any(getattr(cell, "device", "cpu").startswith("cuda") for cell in cells) or (
            bool(gpus.devices) and any(getattr(cell, "device", "cpu") == "auto" for cell in cells))
        tell_need(need, on_gpu, gpus, experiment)


def tell_need(need: Need, on_gpu: bool, gpus: Gpus, experiment: str) -> None:
    totals = [device.memory_total_bytes for device in gpus.devices if device.memory_total_bytes]
    has, where = (min(totals), "its smallest GPU") if on_gpu and totals else (memory_limit_bytes(), "this machine")
    asked = need.asked
    blocks = f" every {asked['blocks_per_checkpoint']} blocks" if asked["blocks_per_checkpoint"] > 1 else ""
    sentence = (f"The largest cell **needs about {size(need.peak_bytes)}, {where} has {size(has)}**: "
                f"{safe(asked['model'])}, {asked['method']}{blocks}, batches of {asked['batch_size']}.")
    if need.looked_at < need.settings:
        sentence += f" Predicted for {need.looked_at} of {need.settings} settings, those with the largest batches."
    if experiment == "finetune":
        sentence += " Predicted with every layer trained; training the head alone needs less."
    if experiment == "training":
        sentence += " Per device; FSDP, which shares parameters out, needs less, and loaders come on top."
    (st.warning if need.peak_bytes > has else st.info)(
        sentence + (" It will not fit." if need.peak_bytes > has else ""), icon=":material/memory:")


class _NotKnown(Exception):
    """A page asks kept answers for one that is not there."""


def predict_batches(lab: Lab) -> None:
    """Peaks over batch sizes and the largest batch per method, from kept answers; a button asks for missing ones."""
    wanted = choose_wanted({name: entry.kind for name, entry in MODELS.items()}, get_args(OptimizerName),
                           memory_limit_bytes())
    if wanted is None:
        return
    if problem := next((problem for method in wanted.methods
                        if (problem := input_problem(wanted.model, cast(Method, method), wanted.size))), None):
        st.error(safe(problem))
        return

    def questions(method: str, batch_size: int) -> Asked:
        return ask_for(wanted.model, batch_size, method, wanted.size, wanted.optimizer)

    def find(answer: Callable[[Asked], int]) -> dict[str, FittingBatch]:
        for method in wanted.methods:
            for batch_size in CURVE_SIZES:
                answer(questions(method, batch_size))
        return {method: largest_batch(lambda batch_size, method=method: answer(questions(method, batch_size)),
                                      wanted.usable_bytes) for method in wanted.methods}

    def from_kept(asked: Asked) -> int:
        try:
            return kept[key_of(asked)]
        except KeyError:
            raise _NotKnown from None

    kept = read_kept(lab.home)
    try:
        found = find(from_kept)
    except _NotKnown:
        expected = len(wanted.methods) * (len(CURVE_SIZES) + 4)
        if not draw_pending(lambda: predict_with_progress(lab, find, expected), lab.viewer):
            return
        kept = read_kept(lab.home)
        found = find(from_kept)
    draw_curve(wanted, {method: _curve(kept, questions(method, 1)) for method in wanted.methods}, found)


def _curve(kept: dict[str, int], asked: Asked) -> dict[int, float]:
    """Every batch size that has been predicted for a setting."""
    points = {}
    for key, peak in kept.items():
        question = json.loads(key)
        if {**question, "batch_size": 1} == {**asked, "batch_size": 1}:
            points[int(question["batch_size"])] = float(peak)
    return points
