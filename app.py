"""Home: what runs now, the latest sweeps, this machine, and one button that starts a tour."""

import streamlit as st

from begin import begin
from engine.machine import cpu_allowance, cpu_model, memory_limit_bytes
from launching import launch_tour
from store.browse import sweep_cells, sweeps_frame
from ui.charts import phase_bars
from ui.colours import ICONS
from ui.frame import safe
from ui.units import size

lab = begin("Home")
st.markdown("A lab for deep-learning pipelines: launch a sweep, watch where the time goes, keep every number.")
st.caption(f"This machine: {cpu_model() or 'unknown CPU'}, {cpu_allowance().cores:g} cores and "
           f"{size(memory_limit_bytes())} of memory for the lab.")

sweeps = sweeps_frame(lab.ask, 5)
running = sweeps[sweeps.status.isin(["running", "queued"])]

left, right = st.columns([1, 2])
with left:
    with st.container(border=True):
        st.subheader("One-minute tour")
        st.markdown("Two batch sizes, three worker counts, one small model: see where an inference pipeline waits.")
        if st.button("Start the one-minute tour", type="primary", icon=":material/play_arrow:", disabled=lab.viewer,
                     width="stretch"):
            launch_tour(lab.home)
    with st.container(border=True):
        st.subheader("Running now")
        if running.empty:
            st.markdown("Nothing is being measured.")
        for sweep in running.itertuples():
            st.markdown(f"{ICONS.get(sweep.status, '')} **{safe(sweep.name or sweep.sweep_id)}** · {sweep.status} · "
                        f"{sweep.ok + sweep.other} of {sweep.planned_runs} runs done")
            st.page_link("pages/Live.py", label="Watch it live", icon=":material/monitoring:",
                         query_params={"sweep": sweep.sweep_id})
with right:
    st.subheader("Latest sweeps")
    if sweeps.empty:
        st.info("No sweeps yet. Start the tour on the left, or choose a question on the Launch page.",
                icon=":material/rocket_launch:")
        st.page_link("pages/Launch.py", label="Choose a question", icon=":material/rocket_launch:")
    for sweep in sweeps.itertuples():
        with st.container(border=True):
            outcome = f"{sweep.ok} ok" + (f", {sweep.other} not ok" if sweep.other else "")
            st.markdown(f"{ICONS.get(sweep.status, '')} **{safe(sweep.name or sweep.sweep_id)}** · "
                        f"{sweep.experiment} · {sweep.created_at:%Y-%m-%d %H:%M} UTC · {outcome}")
            if cells := sweep_cells(lab.ask, sweep.sweep_id, 6):
                st.altair_chart(phase_bars(cells, "cell", "Cell"), width="stretch")
            st.page_link("pages/Runs.py", label="Open its runs", icon=":material/table_rows:",
                         query_params={"sweep": sweep.sweep_id})
