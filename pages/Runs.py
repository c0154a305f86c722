"""Runs: find any run again, open it, tag it, put it away."""

import streamlit as st

from begin import begin
from engine.home import SweepFolder
from store.browse import runs_frame
from store.queries import find_run_ids
from ui.frame import empty_state
from ui.run_page import draw_run
from ui.runs_table import draw_filters, draw_table

lab = begin("Runs")
asked = str(st.query_params.get("run", ""))[:200]
found = find_run_ids(lab.ask, asked) if asked else []
if asked and len(found) == 1:
    folder: SweepFolder = lab.home.sweep(found[0].rsplit("-", 2)[0])
    if st.button("All runs", icon=":material/arrow_back:"):
        del st.query_params["run"]
        st.rerun()
    draw_run(lab.ask, found[0], folder)
    st.stop()
if asked:
    st.warning("There is no run with this id; here are all of them.")

filters = draw_filters(lab.ask)
frame = runs_frame(lab.ask, *filters)
if frame.empty:
    empty_state("No run fits. Change the filters, or measure something.", "Launch a sweep", "pages/Launch.py")
    st.stop()
if run_id := draw_table(frame):
    st.query_params["run"] = run_id
    st.rerun()
