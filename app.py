"""Home: what runs now, the latest sweeps, this machine, and one button that starts a tour."""

from typing import Any

import streamlit as st

from begin import begin
from engine.machine import cpu_allowance, cpu_model, memory_limit_bytes
from engine.nvml import Gpus
from engine.presets import read_preset
from launching import launch_and_watch
from store.browse import sweep_cells, sweeps_frame
from store.live import open_sweeps
from ui.frame import empty_state
from ui.home_page import draw_machine, draw_open, draw_sweep
from ui.live_page import make_cell_picture

CELLS_SHOWN, SWEEPS_SHOWN = 6, 6
EVERY_S = 3.0  # between two looks at what runs, while something does

lab = begin("Home")
gpus = Gpus.open()
cores = cpu_allowance().cores
tour = read_preset("tour", cores, bool(gpus.devices))
st.markdown("Launch a sweep, watch where the time goes, find every number again tomorrow.")
draw_machine(cpu_model(), cores, memory_limit_bytes(), [device.name for device in gpus.devices])

cards = st.grid(2, min_column_width=300, border=True)
with cards.cell():
    st.subheader("One-minute tour")
    st.markdown(f"{tour.number_of_runs} short runs of one small model with several batch sizes and worker counts: "
                "see where an inference pipeline waits. Images are generated, nothing is downloaded.")
    if st.button("Start the one-minute tour", type="primary", icon=":material/play_arrow:", disabled=lab.viewer):
        launch_and_watch(lab, tour)


def open_now() -> list[dict[str, Any]]:
    return lab.keeper.once("open sweeps", lambda: open_sweeps(lab.ask))


def draw_running(before: list[str]) -> None:
    """When another sweep runs than before, or none, the whole page tells of it: its result is among the latest."""
    sweeps = open_now()
    if [sweep["sweep_id"] for sweep in sweeps] != before:
        st.rerun()
    draw_open(sweeps)


with cards.cell():
    st.subheader("Running now")
    running = [sweep["sweep_id"] for sweep in open_now()]
    st.fragment(run_every=EVERY_S if running else None)(draw_running)(running)

st.subheader("Latest sweeps")
sweeps = lab.keeper.once("latest sweeps", lambda: sweeps_frame(lab.ask, SWEEPS_SHOWN, archived=False))
if sweeps.empty:
    empty_state("No sweeps yet. Start the tour above, or choose a question of your own.", "Choose a question",
                "pages/Launch.py")
cards = st.grid(2, min_column_width=460, gap="medium")
for sweep in sweeps.itertuples():
    picture = lab.keeper.once(("small picture", sweep.sweep_id), lambda sweep_id=sweep.sweep_id: make_cell_picture(
        sweep_cells(lab.ask, sweep_id), CELLS_SHOWN))
    with cards.cell():
        draw_sweep(sweep, picture, CELLS_SHOWN)
st.page_link("pages/Runs.py", label="Figures of the five earlier studies (seeds 000 to 004)",
             icon=":material/menu_book:", query_params={"shown": "published"})
