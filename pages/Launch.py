"""Launch: choose a question, start from a preset, change the form, see what it will take, go."""

import shutil
from typing import Any

import streamlit as st

from analysis.expectation import expect, work_of
from begin import begin
from engine.allowed_folders import check_folder, is_folder
from engine.environment import same_machine
from engine.machine import cpu_allowance
from engine.nvml import Gpus
from engine.params import InputError
from engine.presets import list_presets
from engine.registry import load_all
from engine.spec import MANY_RUNS, SweepSpec, make_cells, make_spec, parse_spec
from launching import launch_and_watch, without_defaults
from predicting import draw_prediction
from store.browse import past_runs, run_as_sweep, sweep_spec
from ui.forms import draw_form
from ui.frame import safe
from ui.launch_page import Cost, as_sweep, as_yaml, draw_about, draw_cost, draw_question
from ui.links import choose

MOST_CELLS = 20_000

lab = begin("Launch")
gpus = Gpus.open()
presets = list_presets(cpu_allowance().cores, bool(gpus.devices))
state = st.session_state
state.setdefault("start", {})
state.setdefault("form_version", 0)


def fill(content: dict[str, Any]) -> None:
    """Fill the form from a sweep; the widgets get new keys, so that they take the new values."""
    state["start"] = content
    state["form_version"] += 1
    state["experiment"] = content["experiment"]


def fill_from_yaml() -> None:
    try:
        fill(parse_spec(state["yaml_text"], "the YAML").model_dump(mode="json"))
    except InputError as error:
        state["yaml_problem"] = str(error)


def fill_from_link() -> None:
    """A preset, an earlier sweep or an earlier run, named in the link: once per link."""
    asked = {name: str(st.query_params[name])[:200] for name in ("preset", "from_sweep", "from_run")
             if name in st.query_params}
    if asked == state.get("filled_from", {}):
        return
    state["filled_from"] = asked
    content = (presets[asked["preset"]].spec.model_dump(mode="json")
               if asked.get("preset") in presets else
               sweep_spec(lab.ask, asked["from_sweep"]) if "from_sweep" in asked else
               run_as_sweep(lab.ask, asked["from_run"]) if "from_run" in asked else None)
    if content:
        try:
            fill(make_spec(without_defaults(content)).model_dump(mode="json"))
        except InputError as error:
            st.warning(f"The form could not be filled from there: {safe(error)}")
    elif asked.keys() - {"preset"}:  # an unknown preset is told where it is chosen
        st.warning("The link names a sweep or run that is not here.")


def check_here(name: str, value: Any) -> None:
    """Whether a value can be used from here: a folder must be allowed, and what it should hold must be there."""
    check_folder(experiment, name, value, lab.home)
    if experiment.check and is_folder(experiment, name):
        experiment.check([experiment.Params.model_validate({name: value})], lab.home.cache)


def work_out(spec: SweepSpec) -> Cost:
    number = spec.number_of_runs // spec.repeats
    if number > MOST_CELLS:
        raise InputError(f"grid: {number:,} cells are more than a form should start; give fewer values, or use "
                         "`python lab.py sweep`")
    cells = make_cells(spec)
    if experiment.check:
        experiment.check([cell.params for cell in cells], lab.home.cache)
    past = past_runs(lab.ask, experiment.name, same_machine(gpus))
    cannot_run = experiment.cannot_run or (lambda params, gpus: None)
    reasons = {cell.key: reason for cell in cells if (reason := cannot_run(cell.params, gpus))}
    keyed = [(cell.key, work_of(cell.params.model_dump(mode="json"))) for cell in cells if cell.key not in reasons]
    return Cost(len(cells) * spec.repeats, len(cells), expect(keyed, spec.repeats, past),
                shutil.disk_usage(lab.home.root).free, list(reasons.values()))


fill_from_link()
st.subheader("1. The question")
experiment = draw_question(load_all())

st.subheader("2. The settings")
with st.container(horizontal=True, vertical_alignment="bottom"):
    before = st.query_params.get("preset")
    choose("Preset", list(presets), "preset", lambda name: presets[name].spec.name, index=None, width=420,
           placeholder="own settings",
           help="Fills the form: one sized for this machine, and the grids of five earlier studies (seeds 000 to 004).")
    if st.query_params.get("preset", before) != before or (before in presets and "preset" not in st.query_params):
        st.rerun()
    # A form sends the text together with the click: pasted and not left yet, it counts.
    with st.popover("Load YAML", icon=":material/upload:"), st.form("yaml", border=False):
        st.text_area("A sweep as YAML", height=220, max_chars=100_000, key="yaml_text")
        st.form_submit_button("Fill the form", on_click=fill_from_yaml)
if problem := state.pop("yaml_problem", None):
    st.error(safe(problem))
start = state["start"] if state["start"].get("experiment") == experiment.name else {}
values = {**{name: [value] for name, value in start.get("fixed", {}).items()}, **start.get("grid", {})}
filled = draw_form(experiment, values, str(state["form_version"]), lab.viewer, check_here)
about = draw_about(start, state["form_version"])

st.subheader("3. What it will take")
if filled.problems:
    st.info("Correct the marked fields, then launch.")
    st.stop()
try:
    spec = make_spec(as_sweep(experiment, filled, about, start))
    draw_cost(work_out(spec))
    draw_prediction(lab, spec, gpus)
except InputError as error:
    st.error(safe(error))
    st.stop()
sure = spec.number_of_runs <= MANY_RUNS or st.checkbox(f"Yes, start {spec.number_of_runs:,} runs")
with st.container(horizontal=True):
    if st.button("Launch", type="primary", icon=":material/rocket_launch:", disabled=lab.viewer or not sure):
        launch_and_watch(lab, spec)
    with st.popover("Show as YAML", icon=":material/code:"):
        st.code(as_yaml(spec), language="yaml")
