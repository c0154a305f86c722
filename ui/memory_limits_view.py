"""The largest batch on the Memory page: what own runs found, and predicted peaks against the memory of a chosen GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd
import streamlit as st

from analysis.memory import METHODS
from analysis.memory_limits import MOST, FittingBatch
from ui.figure import draw_figure
from ui.frame import safe
from ui.links import choose, choose_many
from ui.memory_charts import GIB, batch_lines
from ui.units import size

GPUS_GIB = {"RTX A5000": 23.7, "Quadro RTX 5000": 15.7, "T4": 14.6, "L4": 22.0, "V100 16 GB": 15.8, "V100 32 GB": 31.7,
            "A100 40 GB": 39.4, "A100 80 GB": 79.2, "H100 80 GB": 79.1, "RTX 4090": 23.6}
"""About what the driver leaves to programs: less than the maker's name says, and drivers differ by a few tenths. The
table on the page can be changed."""
MACHINE = "this machine's memory"
LEAST_GIB, MOST_GIB = 0.1, 10_000.0
LONGEST_NAME = 60
KEPT_FREE_GIB = 0.5
DEFAULT_OPTIMIZER = "sgd_momentum"
PRECISIONS = ("fp32", "bf16", "fp16")
WITH_BLOCKS = ("checkpoint", "selective")


class Wanted(NamedTuple):
    """What a curve is asked for."""

    model: str
    methods: list[str]
    size: int
    optimizer: str
    device: str
    usable_bytes: float
    precision: str = "fp32"
    blocks: int = 1
    """Per checkpoint; without effect on methods that have none."""


def choose_wanted(models: Mapping[str, str], optimizers: Sequence[str], machine_bytes: float) -> Wanted | None:
    """`models` are names with their kind. All of it is in the link; of the table's changes the chosen device."""
    places = st.grid(3, min_column_width=220)
    with places.cell():
        first = "resnet18" if "resnet18" in models else next(iter(models))
        model = choose("Model", [first, *(name for name in models if name != first)], "predict", str) or first
    possible = [method for method in METHODS if method != "reversible" or model.startswith("revnet_")]
    with places.cell():
        default = ["plain", "reversible"] if "reversible" in possible else ["plain", "checkpoint"]
        methods = choose_many("Methods", possible, "methods", str, default)
    with places.cell():
        optimizer = st.selectbox("Optimiser", optimizers, key="optimizer", bind="query-params",
                                 index=list(optimizers).index(DEFAULT_OPTIMIZER))
    with places.cell():
        text = models[model] == "text"
        side = (st.number_input("Tokens", 1, 512, 128, key="tokens", bind="query-params") if text else
                st.number_input("Image size (px)", 32, 2048, 224, key="pixels", bind="query-params"))
    with places.cell():
        precision = st.selectbox("Precision", PRECISIONS, key="precision", bind="query-params",
                                 help="bf16 and fp16 run the forward pass under autocast.")
    blocks = 1
    if set(methods) & set(WITH_BLOCKS):
        with places.cell():
            blocks = st.number_input("Blocks per checkpoint", 1, 1000, 1, key="blocks", bind="query-params",
                                     help="So many blocks are computed again at once.")
    devices = _offer_devices({**GPUS_GIB, MACHINE: round(machine_bytes / GIB, 2)})
    with places.cell():
        chosen = choose("Device", list(devices), "gpu", lambda known: "{} (about {:g} GiB)".format(*devices[known]))
    st.session_state["chosen_device"] = chosen
    with places.cell():
        free = st.number_input("Kept free (GiB)", 0.0, 64.0, KEPT_FREE_GIB, 0.1, key="free", bind="query-params",
                               help="For the CUDA context, workspaces and a display.")
    if not methods or chosen is None:
        st.info("Choose a device and at least one method.")
        return None
    device, gib = devices[chosen]
    return Wanted(model, methods, int(side), str(optimizer), device, max(0.0, gib - float(free)) * GIB,
                  str(precision), int(blocks))


def _offer_devices(known: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """The table's devices by what links call them: their name, with ~ and the GiB where those are other than known."""
    asked = st.query_params.get("gpu", "")
    linked = _read_device(asked) if asked != st.session_state.get("chosen_device") else {}
    if linked or "first_devices" not in st.session_state:
        st.session_state["first_devices"] = {**known, **linked}
    devices = {name if gib == known.get(name) else f"{name}~{gib:.10g}": (name, gib)
               for name, gib in _edit_table(st.session_state["first_devices"]).items()}
    before = st.session_state.get("choose_gpu")
    if before is not None and before not in devices:  # its memory was changed in the table
        name = next(iter(_read_device(before)), before)
        same = [key for key, device in devices.items() if device[0] == name]
        if same:
            st.session_state["choose_gpu"] = same[0]
        else:
            del st.session_state["choose_gpu"]
    return devices


def _read_device(text: str) -> dict[str, float]:
    """A link's own device; nothing where it names one by its name alone, or none that could be."""
    name, _, gib = text.rpartition("~")
    try:
        found = float(gib)
    except ValueError:
        return {}
    return {name: found} if name.strip() and len(name) <= LONGEST_NAME and LEAST_GIB <= found <= MOST_GIB else {}


def _edit_table(first: Mapping[str, float]) -> dict[str, float]:
    with st.expander("Memory of devices: change, add or remove rows"):
        st.caption("About what drivers leave to programs, less than the maker's figure. torch.cuda.mem_get_info() "
                   "tells your own.")
        columns = {"Device": st.column_config.TextColumn(max_chars=LONGEST_NAME),
                   "GiB": st.column_config.NumberColumn(min_value=LEAST_GIB, max_value=MOST_GIB, format="%.2f")}
        edited = st.data_editor(pd.DataFrame(first.items(), columns=list(columns)), num_rows="dynamic",
                                hide_index=True, key="gpu_table", column_config=columns)
    rows = edited.dropna()
    return {str(name): float(gib) for name, gib in zip(rows["Device"], rows["GiB"], strict=True) if str(name).strip()}


def draw_curve(wanted: Wanted, points: Mapping[str, Mapping[int, float]], found: Mapping[str, FittingBatch]) -> None:
    """`points` are predicted peaks in bytes by method and batch size."""
    frame = pd.DataFrame([{"method": method, "batch_size": batch, "peak_gib": peak / GIB}
                          for method, peaks in points.items() for batch, peak in sorted(peaks.items())])
    draw_figure(about_fitting(wanted, found), batch_lines(frame, wanted.usable_bytes / GIB), frame, "predicted_batches",
                "Predicted for one training step without allocating it, as a CPU's allocator would serve it. A GPU's "
                "rounds up and its convolutions take workspaces on top; this was not checked on one.",
                measured=False)
    st.dataframe(pd.DataFrame([
        {"Method": method, "Largest batch that fits": fitting_text(fit),
         "Its predicted peak": size(fit.peak_bytes), "Usable": size(wanted.usable_bytes)}
        for method, fit in found.items()]), hide_index=True, height="content", alt="Largest batch per method")


def fitting_text(fit: FittingBatch) -> str:
    if fit.largest == 0:
        return f"fewer than {fit.too_large}"
    return f"{fit.largest:,}" if fit.too_large is not None else f"at least {MOST:,}"


def about_fitting(wanted: Wanted, found: Mapping[str, FittingBatch]) -> str:
    groups = f" every {wanted.blocks} blocks" if wanted.blocks > 1 else ""
    parts = [f"**{fitting_text(fit)}** with {method}{groups if method in WITH_BLOCKS else ''}"
             for method, fit in found.items()]
    sentence = (f"Largest batch of {safe(wanted.model)} in {wanted.precision} predicted to fit "
                f"{size(wanted.usable_bytes)} of {safe(wanted.device)}: {', '.join(parts)}.")
    plain = found.get("plain")
    if plain and plain.largest:
        best = max(found, key=lambda method: found[method].largest)
        if found[best].largest > plain.largest:
            sentence += f" {best.capitalize()} fits {found[best].largest / plain.largest:.1f} times plain's batch."
    return sentence


def draw_pending(predict: Callable[[], bool], viewer: bool) -> bool:
    """A button while answers are missing; whether they are there now."""
    st.markdown("Predicted peaks over batch sizes: **pending**. Each takes about a second, in a helper process; "
                "answers are kept.")
    return st.button("Predict", type="primary", icon=":material/memory:", disabled=viewer,
                     key="predict_batches") and predict()
