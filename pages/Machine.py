"""Machine: how quiet it is, what it can measure, what is missing, and what the lab has on disk."""

import os
from pathlib import Path
from typing import Any

import streamlit as st

from analysis.quietness import Part, assess
from begin import begin
from engine.caches import list_caches, remove_cache
from engine.disk_use import measure_rest, measure_store, measure_sweeps, measure_use
from engine.doctor import examine, examine_gpus
from engine.home import Home
from engine.noise_check import CHECK_S, read_last, run_check
from engine.params import InputError
from store.queries import count_rows, list_problems
from ui import machine_page as draw
from ui.units import seconds, size

VIEWER = "Viewer mode: look at everything, change nothing."


@st.cache_data(ttl=10, show_spinner=False)
def examined(root: str) -> dict[str, Any]:
    """What takes a walk over the disk or a word with the driver, for some seconds."""
    home = Home(Path(root))
    uses = {"Journals and logs": measure_sweeps(home), "Store": measure_store(home), "Caches": measure_use(home.cache),
            "Notes, queue and the like": measure_rest(home)}
    return {"report": examine(home), "gpus": examine_gpus(), "uses": uses, "caches": list_caches(home)}


def clean(name: str) -> None:
    """A button's work; what came of it is told by the next drawing. Checked here too, not only by disabled buttons."""
    try:
        if lab.viewer:
            raise InputError(VIEWER)
        freed = remove_cache(lab.home, name)
        st.session_state["cleaned"] = f"Removed {draw.safe(name)}: {size(freed)} are free again.", "check_circle"
    except InputError as error:
        st.session_state["cleaned"] = draw.safe(error), "error"
    examined.clear()


def check_noise() -> None:
    if lab.viewer:
        st.error(VIEWER)
        return
    bar = st.progress(0.0, text="The same small piece of work, again and again")
    try:
        run_check(lab.home, CHECK_S, lambda share: bar.progress(share, text=f"{share:.0%} of {seconds(CHECK_S)}"))
    except InputError as error:
        st.warning(draw.safe(error), icon=":material/block:")
    bar.empty()


lab = begin("Machine")
if told := st.session_state.pop("cleaned", None):
    st.toast(told[0], icon=f":material/{told[1]}:", duration="long")
facts = examined(str(lab.home.root))
report = facts["report"]
draw.draw_facts(report)

st.subheader("How quiet is it?")
if st.button(f"Check how quiet this machine is ({CHECK_S:g} s)", type="primary", icon=":material/graphic_eq:",
             disabled=lab.viewer, key="check_noise"):
    check_noise()
if check := read_last(lab.home):
    draw.draw_quietness(check, assess([Part(part.name, part.tracks) for part in check.parts], check.others_cpu_cores,
                                      check.steal_share, check.cores_allowed, check.gpu_busy), os.uname().nodename)
else:
    st.markdown("Not checked yet. The check runs a small fixed load on one core and then on all, and says what "
                "difference between two cells this machine could show.")

left, right = st.columns(2, gap="medium")
with left:
    draw.draw_missing(report["missing"])
    draw.draw_problems(list_problems(lab.ask))
with right:
    draw.draw_disk(facts["uses"], report["free_disk_bytes"], report["home"])
    draw.draw_rows(count_rows(lab.ask))
draw.draw_caches(facts["caches"], lab.viewer, clean)
draw.draw_devices(report, *facts["gpus"])
draw.draw_versions(report)
