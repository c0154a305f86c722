"""Predicted memory on pages: what a cell of an experiment would ask, and the wait for its answer. The answers come from
a helper process, since this one never loads torch; what is known already is shown at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast, get_args

import streamlit as st

from analysis.memory_limits import CURVE_SIZES, FittingBatch, largest_batch
from begin import Lab
from engine.machine import memory_limit_bytes
from engine.memory_methods import Method
from engine.models import MODELS
from engine.nvml import Gpus
from engine.params import InputError
from engine.predict_memory import input_problem
from engine.predictions import Asked, Predictor, key_of, open_predictor, read_kept
from engine.registry import find
from engine.spec import SweepSpec, make_cells
from engine.training_step import OptimizerName
from ui.frame import VIEWER, safe
from ui.memory_limits_view import choose_wanted, draw_curve, draw_pending
from ui.units import size

EXPERIMENTS = ("memory", "training", "finetune")
MOST_SETTINGS = 12


class Question(NamedTuple):
    """A training step, and how many of them share one memory: processes on a CPU do, GPUs have their own."""

    asked: Asked
    copies: int
    on_gpu: bool


class Need(NamedTuple):
    """The question with the largest need of one place, and how many of how many settings were looked at."""

    question: Question
    needed_bytes: int
    looked_at: int
    settings: int


def ask_for(model: str, batch_size: int, method: str, pixels: int, optimizer: str = "sgd_momentum",
            precision: str = "fp32", blocks: int = 1) -> Asked:
    """The question as the helper takes it, with the same key however a page came to it."""
    return {"model": model, "batch_size": batch_size, "method": method, "size": pixels, "optimizer": optimizer,
            "precision": precision, "blocks_per_checkpoint": blocks if method in ("checkpoint", "selective") else 1}


def ask_for_cell(params: Any, gpus: int) -> Question:
    """A cell of one of EXPERIMENTS on a machine with so many GPUs; text models have tokens instead of pixels."""
    given: dict[str, Any] = params.model_dump(mode="json")
    pixels = given["tokens"] if MODELS[given["model"]].kind == "text" else given["image_size"]
    method, batch_size, copies = given.get("method", "plain"), given["batch_size"], 1
    device, ranks = given.get("device", "cpu"), getattr(params, "used_devices", 1)
    on_gpu = gpus >= ranks if device == "auto" else device != "cpu"
    if hasattr(params, "memory_method"):  # the training experiment, which has names of its own
        method, batch_size = params.memory_method, params.device_batch_size
        copies = 1 if on_gpu else ranks
    return Question(ask_for(given["model"], batch_size, method, pixels, given.get("optimizer", "sgd_momentum"),
                            given.get("precision", "fp32"), given.get("blocks_per_checkpoint", 1)), copies, on_gpu)


def cells_that_run(spec: SweepSpec, gpus: Gpus) -> list[Any]:
    """What will be skipped here needs nothing."""
    cannot_run = find(spec.experiment).cannot_run or (lambda params, gpus: None)
    return [cell.params for cell in make_cells(spec) if not cannot_run(cell.params, gpus)]


def largest_questions(cells: Iterable[Any], gpus: int) -> tuple[list[Question], int]:
    """Of each setting the largest batch, and how many settings there are. The most pixels come first, but one of every
    model and method before a second of any: pixels do not tell which network needs most."""
    largest: dict[str, Question] = {}
    for cell in cells:
        question = ask_for_cell(cell, gpus)
        key = key_of({**question.asked, "batch_size": 0, "copies": question.copies, "on_gpu": question.on_gpu})
        if key not in largest or question.asked["batch_size"] > largest[key].asked["batch_size"]:
            largest[key] = question
    ordered = sorted(largest.values(), key=lambda one: -one.copies * one.asked["batch_size"] * one.asked["size"] ** 2)
    seen: Counter[tuple[str, str]] = Counter()
    turns = []
    for question in ordered:
        kind = (question.asked["model"], question.asked["method"])
        turns.append((seen[kind], question))
        seen[kind] += 1
    in_turn = [question for _, question in sorted(turns, key=lambda turn: turn[0])]
    return in_turn[:MOST_SETTINGS], len(ordered)


def known_needs(lab: Lab, questions: list[Question], settings: int) -> list[Need]:
    """The largest on a GPU and the largest on the CPU, from kept answers alone; none while one is missing."""
    kept = read_kept(lab.home)
    needs = [Need(question, kept[key] * question.copies, len(questions), settings) for question in questions
             if (key := key_of(question.asked)) in kept]
    if len(needs) < len(questions):
        return []
    places = ([need for need in needs if need.question.on_gpu == on_gpu] for on_gpu in (True, False))
    return [max(place, key=lambda need: need.needed_bytes) for place in places if place]


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


def draw_prediction(lab: Lab, spec: SweepSpec, gpus: Gpus) -> None:
    """On Launch: the largest cell's need beside what this machine has."""
    if spec.experiment not in EXPERIMENTS:
        return
    cells = cells_that_run(spec, gpus)
    if not cells:
        return
    questions, settings = largest_questions(cells, len(gpus.devices))
    needs = known_needs(lab, questions, settings)
    if not needs:
        clicked = st.button("Predict its memory", icon=":material/memory:", disabled=lab.viewer, key="predict",
                            help=f"Of up to {MOST_SETTINGS} settings, the largest batch of each: some seconds.")
        if clicked and predict_with_progress(lab, lambda ask: [ask(one.asked) for one in questions], len(questions)):
            needs = known_needs(lab, questions, settings)
    for need in needs:
        tell_need(need, gpus, spec.experiment)


def tell_need(need: Need, gpus: Gpus, experiment: str) -> None:
    totals = [device.memory_total_bytes for device in gpus.devices if device.memory_total_bytes]
    asked, copies, on_gpu = need.question
    has, where = (min(totals), "the smallest GPU") if on_gpu and totals else (memory_limit_bytes(), "this machine")
    blocks = f" every {asked['blocks_per_checkpoint']} blocks" if asked["blocks_per_checkpoint"] > 1 else ""
    cut = need.looked_at < need.settings
    which = f"The largest of {need.looked_at} predicted cells" if cut else "The largest cell"
    sentence = (f"{which} **needs about {size(need.needed_bytes)}, {where} has {size(has)}**: "
                f"{safe(asked['model'])}, {asked['method']}{blocks}, batches of {asked['batch_size']}"
                + (f" in each of {copies} processes." if copies > 1 else "."))
    if cut:
        sentence += (f" {need.settings - need.looked_at} of {need.settings} settings were not predicted and may need "
                     "more.")
    if experiment == "finetune":
        sentence += " Predicted with every layer trained; training the head alone needs less."
    if experiment == "training":
        sentence += " FSDP, which shares parameters out, needs less; loaders and gradient buckets come on top."
    if need.needed_bytes > has:
        st.warning(f"{sentence} It will not fit.", icon=":material/memory:")
    else:
        st.info(sentence, icon=":material/memory:")


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
        return ask_for(wanted.model, batch_size, method, wanted.size, wanted.optimizer, wanted.precision, wanted.blocks)

    def find_batches(answer: Callable[[Asked], int]) -> dict[str, FittingBatch]:
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
        found = find_batches(from_kept)
    except _NotKnown:
        expected = len(wanted.methods) * (len(CURVE_SIZES) + 4)
        if draw_pending(lambda: predict_with_progress(lab, find_batches, expected), lab.viewer):
            st.rerun()  # with the answers, and without the button
        return
    draw_curve(wanted, {method: _curve(kept, questions(method, 1)) for method in wanted.methods}, found)


def _curve(kept: dict[str, int], asked: Asked) -> dict[int, float]:
    """Every batch size that has been predicted for a setting."""
    points = {}
    for key, peak in kept.items():
        question = json.loads(key)
        if {**question, "batch_size": 1} == {**asked, "batch_size": 1}:
            points[int(question["batch_size"])] = float(peak)
    return points
