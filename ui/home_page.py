"""The parts of the Home page: this machine in one line, what runs now, a sweep with a small picture of its result."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.colours import ICONS
from ui.figure import draw_figure
from ui.frame import draw_answer_link, safe
from ui.live_page import CELL_NOTE, CellPicture, say_drawn
from ui.units import size


def draw_machine(cpu: str | None, cores: float, memory_bytes: int | None, gpus: list[str]) -> None:
    devices = ", ".join(gpus) if gpus else "no GPU (CPU measurements only)"
    st.caption(safe(f"This machine: {cpu or 'unknown CPU'}, {cores:g} cores and {size(memory_bytes)} of memory for the "
                    f"lab, {devices}."))


def draw_open(sweeps: list[dict[str, Any]]) -> None:
    if not sweeps:
        st.markdown("Nothing is being measured.")
    for sweep in sweeps:
        st.markdown(f"{ICONS[sweep['status']]} **{safe(sweep['name'])}**  \n{sweep['status']}, {sweep['done']} of "
                    f"{sweep['planned_runs'] or '?'} runs done")
        st.page_link("pages/Live.py", label="Watch it live", icon=":material/monitoring:",
                     query_params={"sweep": sweep["sweep_id"]})


def draw_sweep(sweep: Any, picture: CellPicture | None, drawn: int) -> None:
    """`sweep` is a row of store.browse.sweeps_frame; `drawn` is how many cells the picture shows at the most."""
    with st.container(border=True, height="stretch"):
        others = {"skipped": sweep.skipped, "not ok": sweep.other - sweep.skipped}
        outcome = ", ".join([f"{sweep.ok} ok", *(f"{count} {word}" for word, count in others.items() if count)])
        st.markdown(f"{ICONS.get(sweep.status, '')} **{safe(sweep.name or sweep.sweep_id)}**  \n"
                    f"{safe(sweep.experiment)} · {sweep.status} · {sweep.created_at:%Y-%m-%d %H:%M} UTC · {outcome}")
        if picture:
            draw_figure(picture.sentence, picture.chart, None, f"cells_{sweep.sweep_id}",
                        CELL_NOTE + (" " + say_drawn(drawn, picture.cells) if picture.cells > drawn else ""),
                        "Time per item of its cells, by phase")
        else:
            st.caption("It compares no batches; its figures are with its result." if sweep.ok else
                       "No run of it has come to its end.")
        with st.container(horizontal=True):
            st.page_link("pages/Live.py", label="Its result", icon=":material/monitoring:",
                         query_params={"sweep": sweep.sweep_id})
            st.page_link("pages/Runs.py", label="Its runs", icon=":material/table_rows:",
                         query_params={"sweep": sweep.sweep_id})
            draw_answer_link(sweep.experiment, sweep.sweep_id)
