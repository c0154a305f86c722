"""Machine: how quiet it is, what it can measure, what is missing, and what the lab has on disk."""

import os
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import streamlit as st

from begin import begin
from engine.caches import CacheEntry, list_caches, remove_cache
from engine.disk_use import Use, measure_rest, measure_store, measure_sweeps
from engine.doctor import examine, examine_gpus
from engine.home import Home
from engine.noise_check import CHECK_S, read_last, run_check
from engine.params import InputError
from hand import HAND
from store.queries import count_rows, list_problems
from ui import machine_page as draw
from ui.frame import VIEWER
from ui.units import seconds, size


@st.cache_data(ttl=10, show_spinner=False)
def examined(root: str) -> tuple[dict[str, Any], tuple[list[dict[str, Any]], list[str]]]:
    """Kept for some seconds: the driver is asked, and experiments are looked for."""
    return examine(Home(Path(root))), examine_gpus()


@st.cache_data(ttl=10, show_spinner="Measuring what is on disk")
def measured(root: str) -> tuple[dict[str, Use], list[CacheEntry]]:
    home = Home(Path(root))
    caches = list_caches(home)
    return {"Journals and logs": measure_sweeps(home), "Store": measure_store(home),
            "Caches": Use(sum(entry.size_bytes for entry in caches), sum(entry.files for entry in caches)),
            "Notes, queue and the like": measure_rest(home)}, caches


def clean(name: str) -> None:
    """A button's work; what came of it is told by the next drawing."""
    def tell(problem: str) -> None:
        st.session_state["cleaned"] = problem, "error"

    freed = lab.do(remove_cache, lab.home, name, say=tell)
    if freed is not None:
        st.session_state["cleaned"] = f"Removed {draw.safe(name)}: {size(freed)} are free again.", "check_circle"
    examined.clear()
    measured.clear()


def check_noise() -> None:
    if lab.viewer:
        st.error(VIEWER)
        return
    bar = st.progress(0.0, text="The same small piece of work, again and again")
    shares = [0.0]
    # By the hand: the check must not run with a page's low priority.
    check = HAND.submit(run_check, lab.home, CHECK_S, shares.append)
    while not check.done():
        bar.progress(shares[-1], text=f"{shares[-1]:.0%} of {seconds(CHECK_S)}")
        wait([check], 0.1)
    bar.empty()
    if (problem := check.exception()) and not isinstance(problem, InputError):
        raise problem
    if problem:
        st.warning(draw.safe(problem), icon=":material/block:")


lab = begin("Machine")
if told := st.session_state.pop("cleaned", None):
    st.toast(told[0], icon=f":material/{told[1]}:", duration="long")
report, gpus = examined(str(lab.home.root))
draw.draw_facts(report)

st.subheader("How quiet is it?")
if st.button(f"Check how quiet this machine is ({CHECK_S:g} s)", type="primary", icon=":material/graphic_eq:",
             disabled=lab.viewer, key="check_noise"):
    check_noise()
draw.draw_quietness(read_last(lab.home), os.uname().nodename)

panes = st.grid(2, min_column_width=380, gap="medium")
left, right = panes.cell(), panes.cell()
caches = st.container()
with left:
    draw.draw_missing(report["missing"])
    draw.draw_problems(list_problems(lab.ask))
draw.draw_devices(report, *gpus)
draw.draw_versions(report)
# Last, because the first visit walks over every journal: all else is on the page by then.
uses, entries = measured(str(lab.home.root))
with right:
    draw.draw_disk(uses, report["free_disk_bytes"], report["home"])
    draw.draw_rows(count_rows(lab.ask))
with caches:
    draw.draw_caches(entries, lab.viewer, clean)
