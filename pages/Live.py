"""Live: how a sweep stands, what is measured now, where its time goes; once a second, for any number of viewers."""

import time
from functools import partial
from uuid import uuid4

import streamlit as st

from begin import begin, notice_ends, show_messages
from engine import queue
from engine.bundles import bundle_bytes, is_at_rest, too_large_for_browser
from engine.launch import cancel, resume
from engine.machine import cpu_allowance
from hand import HAND
from store.browse import sweep_cells, sweep_results, sweeps_frame
from store.live import live_view
from ui.edit_bar import draw_bundle_button
from ui.frame import empty_state, set_tab_title, shorten
from ui.links import choose
from ui.live_page import (
    CURVES,
    OPEN,
    draw_buttons,
    draw_endings,
    draw_now,
    draw_progress,
    draw_queue,
    make_cell_picture,
    make_pictures,
    make_result_table,
)
from ui.pace import EVERY_S, count_viewers, note_cores, pace_s, say_pace

NAME_LETTERS = 60  # of a sweep's name in the choice, where its date has to find room, too
lab = begin("Live")
cores = cpu_allowance().cores
asked = str(st.query_params.get("sweep", ""))[:200]
sweeps = sweeps_frame(lab.ask, 200, also=asked)
if sweeps.empty:
    empty_state("Nothing has been measured yet.", "Choose a question and launch a sweep", "pages/Launch.py")
    st.stop()
names = {row.sweep_id: row.name or row.sweep_id for row in sweeps.itertuples()}
when = {row.sweep_id: f"{row.created_at:%Y-%m-%d %H:%M} UTC" for row in sweeps.itertuples()}
running = [row.sweep_id for row in sweeps.itertuples() if row.status == "running"]
chosen = choose("Sweep", [*running, *(sweep_id for sweep_id in names if sweep_id not in running)], "sweep",
                lambda sweep_id: f"{shorten(names[sweep_id], NAME_LETTERS)} · {when[sweep_id]}")


def act(what: str, sweep_id: str | None, place: int | None = None) -> None:
    """A button's work; the result shows at once."""
    if what == "cancel":
        lab.do(cancel, lab.home, sweep_id)
    elif what == "move":
        lab.do(queue.move, lab.home, sweep_id, place)
    elif what in ("pause", "continue"):
        lab.do(queue.pause, lab.home, sweep_id, what == "pause")
    else:
        lab.do(lambda: HAND.submit(resume, lab.home, sweep_id, what == "retry").result())


visitor = st.session_state.setdefault("visitor", uuid4().hex)
every_s = pace_s(chosen, count_viewers(visitor, EVERY_S)) if chosen in running else EVERY_S


@st.fragment(run_every=every_s)
def draw_live() -> None:
    # Drawn more seldom, all viewers see the same moment: it is asked for once.
    pictures = lab.keeper.once(("live", chosen), lambda: make_pictures(live_view(lab.ask, chosen, CURVES), cores),
                               version=None if every_s == EVERY_S else int(time.monotonic() / every_s))
    if pictures and pictures.view.sweep["status"] == "running":
        note_cores(chosen, pictures.view.samples, cores)
        if pace_s(chosen, count_viewers(visitor, every_s)) != every_s:
            st.rerun()
    elif every_s != EVERY_S:
        st.rerun()
    show_messages()
    notice_ends(lab)
    if pictures is None:
        st.info("This sweep is not in the store.")
        return
    sweep, run = pictures.view.sweep, pictures.view.run
    finished = lab.keeper.once(("finished cells", chosen), lambda: make_cell_picture(sweep_cells(lab.ask, chosen)) or
                               make_result_table(sweep_results(lab.ask, chosen)), version=sweep["ended"])
    set_tab_title(f"{sweep['status']}: {sweep['name'] or sweep['sweep_id']}")
    line = queue.read_queue(lab.home)
    entry = line.find(chosen)
    paused = queue.is_paused(line, chosen)
    draw_progress(sweep, line.entries.index(entry) if entry else 0, paused)
    ended = entry is None and sweep["status"] not in OPEN and is_at_rest(lab.home.sweep(chosen))
    elsewhere = lab.home.sweep(chosen).bundle.exists()
    draw_buttons(sweep, entry and entry.state == "waiting", bool(entry and entry.paused), lab.viewer, act, elsewhere,
                 partial(draw_bundle_button, chosen, partial(bundle_bytes, lab.home, chosen), lab.keeper.once(
                     ("bundle", chosen), lambda: too_large_for_browser(lab.home, chosen), version=sweep["ended"]))
                 if ended else None)
    draw_endings(sweep, run is None)
    if sentence := say_pace(every_s):
        st.caption(sentence)
    if elsewhere:
        st.caption("Measured elsewhere: it came in a bundle. Its environment is that of its own machine.")
    if len(line.entries) > 1 or line.paused:
        draw_queue(line.entries, line.paused, names, lab.viewer, act)
    draw_now(pictures, finished, lab.home.sweep(chosen).run_log(run["run_id"], run["attempt"]) if run else None)


draw_live()
