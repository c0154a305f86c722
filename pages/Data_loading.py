"""Data loading: loader variants against their baseline, storage latency, waits per batch, and who waits for whom."""

import streamlit as st

from analysis.loading import compare_variants, concurrency_payoffs, steady_rate, whole_rate
from begin import begin
from store.grids import unfinished_plans
from store.loading import count_other_endings, loading_runs, loading_sweeps, published_loading
from ui.batch_workers_page import say_unfinished
from ui.frame import empty_state, safe
from ui.links import choose
from ui.loading_page import (
    STEADY,
    WHOLE,
    choose_environment,
    draw_latency,
    draw_published,
    draw_variants,
    draw_waits,
    first_cell,
    list_cells,
    make_label,
)

lab = begin("Data loading")
published = lab.keeper.once("published loading", lambda: published_loading(lab.ask))
asked = str(st.query_params.get("sweep", ""))[:200]
sweeps = lab.keeper.once(("loading sweeps", asked), lambda: loading_sweeps(lab.ask, asked))
if sweeps.empty:
    empty_state("No loader has been measured yet, or all is archived. The small preset takes about a minute: formats, "
                "workers and concurrent fetch.", "Launch the loader variants", "pages/Launch.py",
                query={"preset": "seed-003-loading-small"})
    draw_published(published)
    st.stop()
rows = {row.sweep_id: row for row in sweeps.itertuples()}
measured = [sweep_id for sweep_id, row in rows.items() if row.ok]
chosen = choose("Sweep", [*measured, *(sweep_id for sweep_id in rows if sweep_id not in measured)], "sweep",
                lambda sweep_id: f"{rows[sweep_id].name or sweep_id} · {rows[sweep_id].created_at:%Y-%m-%d %H:%M} UTC")
assert chosen
runs = lab.keeper.once(("loading runs", chosen), lambda: loading_runs(lab.ask, chosen))
others = lab.keeper.once(("other endings", chosen), lambda: count_other_endings(lab.ask, chosen))
say_unfinished(lab.keeper.once(("unfinished plans", chosen), lambda: unfinished_plans(lab.ask, [chosen])))
if others:
    said = ", ".join(f"{count} {status}" for status, count in others.items())
    st.caption(f"Not shown here: {said}. Find what is left out on the Runs page.")
if not runs:
    empty_state("This sweep has no finished run to show yet.", "See how it stands", "pages/Live.py",
                ":material/monitoring:", {"sweep": chosen})
    draw_published(published)
    st.stop()

runs = choose_environment(runs)
label = make_label(runs)
cells = list_cells(runs, label)
first, instead = first_cell(rows[chosen].spec, runs, cells)
if instead:
    st.caption(safe(instead))
places = st.grid(2, min_column_width=280)
with places.cell():
    baseline = choose("Baseline", [first, *(cell for cell in cells if cell != first)], "baseline",
                      lambda cell: cells[cell]) or first
with places.cell():
    window = st.segmented_control("Items per second over the", [WHOLE, STEADY], default=WHOLE, key="rate",
                                  bind="query-params", required=True,
                                  help="The whole window has the workers' start-up in it; the steady state has not, "
                                       "and short runs have none.")
rate = steady_rate if window == STEADY else whole_rate
variants = compare_variants(runs, baseline, rate)
draw_variants(variants, baseline, label, window or WHOLE, runs)
draw_latency(variants, concurrency_payoffs(runs, rate), make_label(runs, ("latency_s", "fetch_threads")))

st.subheader("Waits, batch by batch")
place = choose("Cell", [first, *(cell for cell in cells if cell != first)], "cell", lambda cell: cells[cell]) or first
members = {run.run_id: run for run in runs if run.cell == place}
run = choose("Run", list(members), "run",
             lambda run_id: run_id + (" (noisy)" if members[run_id].noisy else "")) or next(iter(members))
draw_waits(members[run])
draw_published(published, variants, baseline, label)
