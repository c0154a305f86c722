"""Server-side seconds of every page's whole script on a store of 1000 sweeps, 20,000 runs and 5 million phases.

Streamlit's AppTest runs the pages: its own overhead (see `empty_script_s`) is in every figure. Query results that
pages or the keeper keep are forgotten before each time; the store stays open, as it does in the app. No browser
draws anything here; that a page has charts at all is checked each time, or empty pages would be timed. A folder given
on the command line is a lab that large_store.py has made, and is kept.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from functools import cache, wraps
from math import comb
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import streamlit as st
from comparison import PROJECT, Estimate, at_most, print_report, progress
from large_store import BOARD, BOARD_CHARTS, build_large_store
from streamlit.logger import set_log_level
from streamlit.testing.v1 import AppTest

from begin import open_keeper
from engine.home import Home
from store.queries import count_rows, list_sweeps
from ui.frame import PAGES

ROUNDS = 15
PAGE_LIMIT_S, COMPARE_LIMIT_S, FRAGMENT_LIMIT_S = 0.5, 0.7, 0.1
FRAGMENT = "draw_live"
"""The function in pages/Live.py that is drawn every second."""
OK_RUN = """SELECT r.run_id FROM runs r JOIN sample_summaries s USING (run_id) WHERE r.status = 'ok'
            ORDER BY s.count DESC, r.run_id LIMIT 1"""
DOZEN = """SELECT run_id FROM (SELECT run_id, row_number() OVER (PARTITION BY sweep_id ORDER BY run_id) AS place
           FROM runs WHERE status = 'ok' AND experiment = 'inference' AND run_id NOT IN (SELECT target FROM deleted)
           AND sweep_id NOT IN (SELECT target FROM deleted)) WHERE place = 1 ORDER BY hash(run_id) LIMIT 12"""
"""Runs of twelve sweeps, from all over the store."""
PAIR = """SELECT sweep_id FROM sweeps JOIN runs USING (sweep_id) WHERE sweeps.status = 'finished'
          AND sweeps.experiment = 'inference' AND sweep_id NOT IN (SELECT target FROM deleted)
          GROUP BY sweep_id ORDER BY count(*) DESC, sweep_id LIMIT 2"""
VIEWS = {"Batch & workers": ["Heat map", "Regret and top n", "First batch", "What limits it"],
         "Memory": ["Depth", "Memory against time", "Predicted and measured", "Largest batch"],
         "Model search": ["End to end", "Bottlenecks", "Agreement", "Strategies"]}
"""Besides the one that a page opens with."""
TABLES = ("Launch", "Runs", "Compare", "Boards", "Present", "SQL", "Machine", "Batch & workers, Regret and top n",
          "Batch & workers, What limits it", "Memory, Largest batch")
"""What has no chart before somebody has chosen something."""


class Case(NamedTuple):
    name: str
    file: str
    query: dict[str, str]
    charts: int = 0
    """So many are drawn at the least."""


class Times(NamedTuple):
    wall_s: list[float]
    processor_s: list[float]


def find_cases() -> list[Case]:
    """Every page as its menu entry opens it, then what links lead to."""
    cursor = open_keeper().store.cursor()
    sweeps = list_sweeps(cursor)
    running = next(sweep["sweep_id"] for sweep in sweeps if sweep["status"] == "running")
    largest = max((sweep for sweep in sweeps if sweep["status"] == "finished"),
                  key=lambda sweep: sweep["planned_runs"])["sweep_id"]
    run_id = cursor.execute(OK_RUN).fetchall()[0][0]
    dozen = ",".join(row[0] for row in cursor.execute(DOZEN).fetchall())
    pair = ",".join(row[0] for row in cursor.execute(PAIR).fetchall())
    views = [(f"{page.title}, {view}" if view else page.title, page.file, {"view": view} if view else {})
             for page in PAGES for view in ("", *VIEWS.get(page.title, []))]
    return [*(Case(name, file, query, 0 if name in TABLES else 1) for name, file, query in views),
            Case("Batch & workers, the largest sweep", "pages/Batch_and_workers.py", {"sweeps": largest}, 1),
            Case("Boards, 12 charts", "pages/Boards.py", {"board": BOARD}, 1),
            Case("Present, a slide", "pages/Present.py", {"board": BOARD, "slide": "2"}, 1),
            Case("Runs, one run open", "pages/Runs.py", {"run": run_id}, 1),
            Case("Runs, a search", "pages/Runs.py", {"q": "bf16"}),
            Case("Runs, a tag", "pages/Runs.py", {"tag": "paper"}),
            Case("Runs, the largest sweep", "pages/Runs.py", {"sweep": largest}),
            Case("Compare, 12 runs", "pages/Compare.py", {"items": dozen}, 1),
            Case("Compare, 12 runs, over time", "pages/Compare.py", {"items": dozen, "compare": "Over time"}, 1),
            Case("Compare, the two largest sweeps", "pages/Compare.py", {"items": pair}, 1),
            Case("Live, the running sweep", "pages/Live.py", {"sweep": running}, 1),
            Case("Live, the largest ended sweep", "pages/Live.py", {"sweep": largest}, 1)]


def open_page(case: Case) -> AppTest:
    test = AppTest.from_file(str(PROJECT / "app.py"), default_timeout=120)
    test.query_params.update(case.query)
    if case.file != "app.py":
        test.switch_page(case.file)
    return test


def complete_board() -> tuple[int, float]:
    """How many drawings a board takes until all its charts are there, and the processor seconds of all of them."""
    test = open_page(Case("", "pages/Boards.py", {"board": BOARD}))
    drawings, processor_s = 1, time_script(test)[1]
    while len(test.get("vega_lite_chart")) < len(BOARD_CHARTS):
        drawings += 1
        assert drawings <= 2 * len(BOARD_CHARTS), "the board does not get all its charts"
        started_processor = process_time()
        test.run()
        processor_s += process_time() - started_processor
    return drawings, processor_s


def time_case(case: Case) -> tuple[float, float]:
    """Wall and processor seconds of a new visitor's first look."""
    test = open_page(case)
    took = time_script(test)
    assert len(test.get("vega_lite_chart")) >= case.charts, f"{case.name} draws too few charts"
    return took


class FragmentClock:
    """Notes how long the part of Live takes that is drawn again every second, while its page is timed."""

    def __init__(self) -> None:
        self._noted: list[tuple[float, float]] = []
        fragment = st.fragment

        def noting(draw: Callable[..., Any] | None = None, **options: Any) -> Any:
            if draw is None:
                return lambda draw: noting(draw, **options)
            return fragment(self._timed(draw) if draw.__name__ == FRAGMENT else draw, **options)

        st.fragment = noting  # the page asks for it anew each time it is run

    def _timed(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(draw)
        def timed(*arguments: Any, **named: Any) -> Any:
            started, started_processor = perf_counter(), process_time()
            try:
                return draw(*arguments, **named)
            finally:
                self._noted.append((perf_counter() - started, process_time() - started_processor))
        return timed

    def take(self) -> tuple[float, float]:
        noted = self._noted[-1]  # those before are of boards, which run the page for its charts
        self._noted.clear()
        return noted


def time_script(test: AppTest) -> tuple[float, float]:
    # Each AppTest would look through all installed packages for components (0.1 s); a server does that once.
    assert hasattr(test, "_bidi_component_manager")
    test._bidi_component_manager = components()
    st.cache_data.clear()
    open_keeper().forget()  # what it keeps for all viewers is asked for anew
    started, started_processor = perf_counter(), process_time()
    test.run()
    took = perf_counter() - started, process_time() - started_processor
    assert not test.exception, [error.message for error in test.exception]
    return took


@cache
def components() -> Any:
    test = AppTest.from_string("").run()
    return test._bidi_component_manager


def middle(values: list[float]) -> Estimate:
    """The median with the narrowest interval of order statistics that covers it in 95 % of cases."""
    ordered, n = sorted(values), len(values)
    out = 0
    while 1 - 2 * sum(comb(n, k) for k in range(out + 2)) / 2**n >= 0.95:
        out += 1
    return Estimate(median(ordered), (ordered[out], ordered[n - 1 - out]), n)


def measure(cases: list[Case]) -> tuple[dict[str, Times], dict[str, Times], Times]:
    """Pages, Live's fragments and the empty script, each once a round and in random order."""
    clock = FragmentClock()
    pages = {case.name: Times([], []) for case in cases}
    parts = {case.name: Times([], []) for case in cases if case.file == "pages/Live.py"}
    empty = Times([], [])
    draw = random.Random(0)
    for number in range(-1, ROUNDS):  # the first round imports and compiles: it does not count
        progress(f"round {number + 1} of {ROUNDS}")
        found = [(empty, time_script(AppTest.from_string("")))]
        for case in draw.sample(cases, len(cases)):
            found.append((pages[case.name], time_case(case)))
            if case.name in parts:
                found.append((parts[case.name], clock.take()))
        for times, (wall_s, processor_s) in found if number >= 0 else []:
            times.wall_s.append(wall_s)
            times.processor_s.append(processor_s)
    return pages, parts, empty


def tell(times: Times) -> dict[str, Any]:
    return {"median_s": middle(times.wall_s), "worst_s": max(times.wall_s),
            "processor_s": middle(times.processor_s)}


def main() -> None:
    with TemporaryDirectory(prefix="phaselab-bench-") as folder:
        home = Home(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else Path(folder) / "lab")
        if not home.store.exists():
            progress("making the store")
            build_large_store(home)
        os.environ["PHASELAB_HOME"] = str(home.root)
        set_log_level("error")  # AppTest is told over and over that there is no server
        keeper = open_keeper()
        rows = {table: count for table, count in count_rows(keeper.store.cursor()).items() if count}
        pages, parts, empty = measure(find_cases())
        drawings, processor_s = complete_board()
        keeper.stop()
        keeper.store.close()
    print_report(
        "pages", "Seconds of a page's whole script on the server over a large store, AppTest's overhead included.",
        {"rows": rows, "empty_script_s": tell(empty),
         "whole_board": {"drawings": drawings, "processor_s": processor_s},
         "pages": {name: tell(times) for name, times in pages.items()},
         "live_fragment": {name: tell(times) for name, times in parts.items()}},
        [*(at_most(f"seconds of {name}", COMPARE_LIMIT_S if name.startswith("Compare,") else PAGE_LIMIT_S,
                   middle(times.wall_s)) for name, times in pages.items()),
         *(at_most(f"seconds of the fragment of {name}", FRAGMENT_LIMIT_S, middle(times.wall_s))
           for name, times in parts.items())])


if __name__ == "__main__":
    main()
