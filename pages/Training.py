"""Training: checkpointing, DP, DDP and FSDP against plain training; epochs, losses, efficiency; seed 002 beside."""

import streamlit as st

from analysis.training import compare_curves, compare_methods
from begin import begin
from store.training import loss_curves, other_endings, published_training, training_runs, training_sweeps
from ui.frame import empty_state
from ui.links import choose
from ui.training_page import (
    draw_efficiency,
    draw_endings,
    draw_environments,
    draw_epochs,
    draw_losses,
    draw_methods,
    draw_published,
    in_order,
    make_label,
)

lab = begin("Training")
published = lab.keeper.once("published training", lambda: published_training(lab.ask))
asked = str(st.query_params.get("sweep", ""))[:200]
sweeps = lab.keeper.once(("training sweeps", asked), lambda: training_sweeps(lab.ask, asked))
if sweeps.empty:
    empty_state("Nothing has been trained yet. The small preset takes about a minute: plain, checkpointing, DDP "
                "and FSDP.", "Launch the training methods", "pages/Launch.py",
                query={"preset": "seed-002-training-small"})
    draw_published(published)
    st.stop()
rows = {row.sweep_id: row for row in sweeps.itertuples()}
measured = [sweep_id for sweep_id, row in rows.items() if row.ok]
chosen = choose("Sweep", [*measured, *(sweep_id for sweep_id in rows if sweep_id not in measured)], "sweep",
                lambda sweep_id: f"{rows[sweep_id].name or sweep_id} · {rows[sweep_id].created_at:%Y-%m-%d %H:%M} UTC")
assert chosen
runs = lab.keeper.once(("training runs", chosen), lambda: training_runs(lab.ask, chosen))
draw_endings(lab.keeper.once(("training endings", chosen), lambda: other_endings(lab.ask, chosen)))
if not runs:
    empty_state("This sweep has no finished run to show yet.", "See how it stands", "pages/Live.py",
                ":material/monitoring:", {"sweep": chosen})
    draw_published(published)
    st.stop()

draw_environments(runs, chosen)
label = make_label(runs)
cells = compare_methods(in_order(runs))
draw_methods(cells, published, label)
draw_epochs(cells, label)
curves = lab.keeper.once(("training losses", chosen), lambda: loss_curves(lab.ask, in_order(runs)))
draw_losses(curves, compare_curves(curves, {run.run_id: run for run in runs}), {run.group: label(run) for run in runs})
draw_efficiency(cells, label)
