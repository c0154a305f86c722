"""Launch: choose a question, start from a preset, change the form, see what it will take, go."""

import shutil
from typing import Any

import streamlit as st
import yaml

from begin import begin
from engine.nvml import Gpus
from engine.params import InputError
from engine.registry import Broken, load_all
from engine.spec import MANY_RUNS, make_cells, make_spec, parse_spec
from launching import PRESETS, launch_and_watch, new_token
from store.browse import expected_run_s
from ui.forms import draw_form
from ui.frame import safe
from ui.units import seconds, size

lab = begin("Launch")
experiments = load_all()
if "start" not in st.session_state:
    st.session_state["start"], st.session_state["form_version"] = {}, 0
    new_token()


def fill_from(content: dict[str, Any]) -> None:
    """Fill the form from a sweep; the widgets get new keys, so that they take the new values."""
    st.session_state["start"] = content
    st.session_state["form_version"] += 1
    new_token()


def load_text(text: str) -> None:
    try:
        fill_from(parse_spec(text, "the YAML").model_dump(mode="json"))
    except InputError as error:
        st.session_state["yaml_problem"] = str(error)


st.subheader("1. The question")
for name, entry in experiments.items():
    if isinstance(entry, Broken):
        st.error(f"Experiment {safe(name)} is broken: {safe(entry.error)}")
working = {name: entry for name, entry in experiments.items() if not isinstance(entry, Broken)}
name = st.segmented_control("Question", list(working), default=next(iter(working)), label_visibility="collapsed",
                            key="experiment", bind="query-params") or next(iter(working))
experiment = working[name]
with st.container(border=True):
    st.markdown(experiment.question)

st.subheader("2. The settings")
presets = {"own settings": None} | {path.stem: path for path in sorted(PRESETS.glob("*.yaml"))}
with st.container(horizontal=True, vertical_alignment="bottom"):
    preset = st.selectbox("Preset", list(presets), width=320, help="The studies' own grids, and small ones.")
    if presets[preset] is not None:
        st.button("Fill the form from it", on_click=load_text, args=(presets[preset].read_text(),))
    with st.popover("Load YAML", icon=":material/upload:"):
        text = st.text_area("A sweep as YAML", height=220, max_chars=100_000)
        if st.button("Fill the form", disabled=not text):
            load_text(text)
            st.rerun()
if problem := st.session_state.pop("yaml_problem", None):
    st.error(problem)
start = st.session_state["start"] if st.session_state["start"].get("experiment", name) == name else {}
values = {**{key: [value] for key, value in start.get("fixed", {}).items()}, **start.get("grid", {})}
version = st.session_state["form_version"]
filled = draw_form(experiment, values, str(version), lab.viewer)

columns = st.columns([2, 1, 1])
title = columns[0].text_input("Name", value=start.get("name", ""), max_chars=200, key=f"name.{version}")
repeats = columns[1].number_input("Repeats (runs per cell)", 1, 1000, start.get("repeats", 3), key=f"repeats.{version}",
                                  help="At least 3 for a claim, 5 for a small difference.")
order = columns[2].selectbox("Order", ["random", "as_listed"], help="Random: drift does not look like an effect.",
                             index=["random", "as_listed"].index(start.get("order", "random")), key=f"order.{version}")
notes = st.text_area("Notes", value=start.get("notes", ""), max_chars=20_000, height=80, key=f"notes.{version}")
tags = st.multiselect("Tags", start.get("tags", []), default=start.get("tags", []), accept_new_options=True,
                      max_selections=50, key=f"tags.{version}")

st.subheader("3. What it will take")
content = {"experiment": name, "name": title, "notes": notes, "tags": tags, "repeats": int(repeats), "order": order,
           "grid": {key: value for key, value in filled.values.items() if len(value) > 1},
           "fixed": {key: value[0] for key, value in filled.values.items() if len(value) == 1}}
if not content["grid"]:
    content["grid"] = {"seed": [content["fixed"].pop("seed", 0)]}
spec = None
if not filled.problems:
    try:
        spec = make_spec(content)
        cells = make_cells(spec) if spec.number_of_runs <= 100_000 else []
    except InputError as error:
        st.error(str(error))
if spec:
    runs = spec.number_of_runs
    models = {cell.params.model_dump().get("model") for cell in cells[:500]}
    past = [s for model in models for s in expected_run_s(lab.ask, name, model, None)]
    expected = "unknown, first of its kind"
    if past:
        expected = f"{seconds(min(past) * runs)} to {seconds(max(past) * runs)}, from {len(past)} earlier runs"
    gpus = Gpus.open()
    reasons = [r for cell in cells if experiment.cannot_run and (r := experiment.cannot_run(cell.params, gpus))]
    gpus.close()
    with st.container(horizontal=True):
        st.metric("Runs", f"{runs:,}", border=True)
        st.metric("Cells", f"{runs // spec.repeats:,}", border=True)
        st.metric("Free disk", size(shutil.disk_usage(lab.home.root).free), border=True)
    st.markdown(f"Expected time: **{expected}**.")
    if reasons:
        st.warning(f"{len(reasons)} cells cannot run here and will be skipped: {safe(reasons[0])}")
    sure = runs <= MANY_RUNS or st.checkbox(f"Yes, start {runs:,} runs")
    with st.container(horizontal=True):
        if st.button("Launch", type="primary", icon=":material/rocket_launch:", disabled=lab.viewer or not sure):
            launch_and_watch(lab.home, spec)
        with st.popover("Show as YAML", icon=":material/code:"):
            st.code(yaml.safe_dump(spec.model_dump(mode="json", exclude_defaults=True), sort_keys=False,
                                   allow_unicode=True), language="yaml")
elif filled.problems:
    st.info("Correct the marked fields, then launch.")
