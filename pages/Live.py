"""Live: how a sweep stands, what is being measured now, and where its time goes, once a second."""

import streamlit as st

from begin import Lab, begin
from engine import queue
from engine.launch import cancel, resume
from engine.params import InputError
from store.browse import last_batches, run_samples, running_run, sweep_cells, sweep_progress, sweeps_frame
from ui.charts import batch_bars, phase_bars, telemetry_lines
from ui.colours import ICONS
from ui.frame import empty_state, safe
from ui.units import seconds

CURVES = {"run_cpu_cores": ("CPU of the run (cores)", 1.0), "resident_bytes": ("Resident memory (GiB)", 2.0**-30),
          "gpu_utilization": ("GPU busy (% of time)", 100.0), "gpu_memory_used_bytes": ("GPU memory (GiB)", 2.0**-30),
          "power_watts": ("GPU power (W)", 1.0)}

lab = begin("Live")
sweeps = sweeps_frame(lab.ask, 200)
if sweeps.empty:
    empty_state("Nothing has been measured yet.", "Choose a question and launch a sweep", "pages/Launch.py")
    st.stop()
names = {row.sweep_id: f"{row.name or row.sweep_id} · {row.status} · {row.created_at:%m-%d %H:%M}"
         for row in sweeps.itertuples()}
active = [row.sweep_id for row in sweeps.itertuples() if row.status == "running"]
order = [*active, *(sweep_id for sweep_id in names if sweep_id not in active)]
# Not bound to the link: Streamlit would put the label there, which changes while the sweep runs, and not the id.
asked = st.query_params.get("sweep")
st.session_state["sweep"] = asked if asked in names else order[0]
chosen = st.selectbox("Sweep", order, format_func=lambda sweep_id: names.get(sweep_id, sweep_id), key="sweep",
                      on_change=lambda: st.query_params.update(sweep=st.session_state["sweep"]))
st.query_params["sweep"] = chosen


def act(what: str, sweep_id: str) -> None:
    """A button's work; the result shows in the next second."""
    try:
        if what == "cancel":
            cancel(lab.home, sweep_id)
        elif what in ("pause", "continue"):
            queue.pause(lab.home, sweep_id, what == "pause")
        elif what == "next":
            queue.move(lab.home, sweep_id, 0)
        else:
            resume(lab.home, sweep_id, retry_failed=what == "retry")
    except InputError as error:
        st.toast(str(error), icon=":material/error:")


def draw_buttons(lab: Lab, sweep: dict) -> None:
    entry = queue.read_queue(lab.home).find(sweep["sweep_id"])
    bad = sum(count for status, count in sweep["counts"].items() if status not in ("ok", "running"))
    missing = (sweep["planned_runs"] or 0) - sum(sweep["counts"].values())
    with st.container(horizontal=True):
        if entry:
            st.button("Cancel", icon=":material/stop_circle:", on_click=act, args=("cancel", sweep["sweep_id"]),
                      disabled=lab.viewer)
            paused = entry.paused
            st.button("Continue" if paused else "Pause", icon=":material/pause_circle:", disabled=lab.viewer,
                      on_click=act, args=("continue" if paused else "pause", sweep["sweep_id"]))
            if entry.state == "waiting":
                st.button("Measure next", icon=":material/vertical_align_top:", on_click=act,
                          args=("next", sweep["sweep_id"]), disabled=lab.viewer)
        elif missing > 0 or bad:
            if missing > 0:
                st.button(f"Resume ({missing} missing)", icon=":material/play_arrow:", on_click=act,
                          args=("resume", sweep["sweep_id"]), disabled=lab.viewer)
            if bad:
                st.button(f"Run failed and missing again ({bad + max(missing, 0)})", icon=":material/replay:",
                          on_click=act, args=("retry", sweep["sweep_id"]), disabled=lab.viewer)
        st.page_link("pages/Runs.py", label="Its runs", icon=":material/table_rows:",
                     query_params={"sweep": sweep["sweep_id"]})


@st.fragment(run_every=1)
def draw_live() -> None:
    sweep = sweep_progress(lab.ask, chosen)
    if sweep is None:
        st.info("This sweep is not in the store.")
        return
    tell_when_it_ends(sweep)
    done = sum(count for status, count in sweep["counts"].items() if status != "running")
    planned = max(sweep["planned_runs"] or 0, done, 1)
    left = ""
    if sweep["status"] == "running" and sweep["wall_s"]:
        mean = sum(sweep["wall_s"]) / len(sweep["wall_s"])
        left = f" · about {seconds(mean * (planned - done))} left"
    waiting = queue.read_queue(lab.home)
    ahead = [entry.sweep_id for entry in waiting.entries].index(chosen) if waiting.find(chosen) else 0
    queued = f" · {ahead} ahead of it in the queue" if sweep["status"] == "queued" and ahead else ""
    st.progress(done / planned, text=f"{ICONS.get(sweep['status'], '')} {sweep['status']} · "
                                     f"{done} of {planned} runs done{left}{queued}")
    counts = [f"{count} {status}" for status, count in sweep["counts"].items()]
    said = [sweep["reason"], sweep["said"] if sweep["status"] in ("running", "queued") else ""]
    st.caption(" · ".join([*counts, *(safe(text) for text in said if text)]))
    draw_buttons(lab, sweep)
    run = running_run(lab.ask, chosen)
    left_side, right_side = st.columns(2)
    with left_side:
        if run and (batches := last_batches(lab.ask, run["run_id"])):
            st.subheader("This run, its last batches")
            st.caption(safe(", ".join(f"{name}={value}" for name, value in run["params"].items() if value is not None)))
            st.altair_chart(batch_bars(batches), width="stretch", key="batches")
        if cells := sweep_cells(lab.ask, chosen):
            st.subheader("Finished cells")
            st.altair_chart(phase_bars(cells, "cell", "Cell"), width="stretch", key="cells")
    with right_side:
        if run:
            draw_curves(run["run_id"])
            log = lab.home.sweep(chosen).run_log(run["run_id"], run["attempt"])
            if log.exists() and (text := log.read_text(errors="replace")[-2000:]):
                st.caption("The end of its log")
                st.code(text, language=None, height=160)
        for ending in sweep["endings"]:
            st.warning(f"{ending['runs']} {ending['status']}: {safe(ending['reason'] or 'no reason was given')}",
                       icon=ICONS.get(ending["status"]))


def draw_curves(run_id: str) -> None:
    samples = run_samples(lab.ask, run_id, list(CURVES))
    for metric, (title, scale) in CURVES.items():
        rows = [row for row in samples if row["metric"] == metric]
        if len(rows) > 1:
            st.altair_chart(telemetry_lines(rows, title, scale), width="stretch", key=f"curve_{metric}")


def tell_when_it_ends(sweep: dict) -> None:
    """The browser says once that a sweep it watched has ended."""
    before = st.session_state.get("watched")
    now = (sweep["sweep_id"], sweep["status"])
    if before and before[0] == now[0] and before[1] in ("running", "queued") and now[1] not in ("running", "queued"):
        st.toast(f"The sweep has {sweep['status'] if sweep['status'] == 'finished' else 'ended: ' + sweep['status']}.",
                 icon=ICONS.get(sweep["status"]), duration="infinite")
    st.session_state["watched"] = now


draw_live()
