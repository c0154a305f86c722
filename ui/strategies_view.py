"""The view of search strategies: against each other, what the models share, and scaling to many models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.lasting_ids import lasting_id
from analysis.search_prices import find_prices
from analysis.search_scaling import SHARES, Store, can_halve, count_work, items_to_halve
from analysis.strategies import BASELINE, ORDER, StrategyTimes, Winner, compare_strategies, find_winners
from engine.home import Home
from store.strategies import as_search_run, strategy_runs, strategy_sweeps
from ui.figure import draw_figure, draw_rows_button
from ui.frame import empty_state, safe
from ui.links import choose, choose_many, choose_number
from ui.strategies_charts import (
    TITLES,
    faster_dots,
    faster_frame,
    group_bars,
    group_frame,
    scaling_lines,
    store_title,
    tree_frame,
    tree_rectangles,
)
from ui.strategies_findings import (
    about_faster,
    about_groups,
    about_scaling,
    about_tree,
    about_winners,
    published_note,
)
from ui.units import number, seconds, size

MODELS_SHOWN = (10, 35, 100, 350, 1_000, 3_500, 10_000, 50_000)
MOST_ITEMS = 10_000_000
LARGEST_FILE = 5_000_000
RANKS_SHOWN = 5
Row = dict[str, Any]


def draw_strategies(connection: Any, home: Home, once: Callable[..., Any], defaults: Row) -> None:
    """`once` is the keeper's, `defaults` are those of the experiment's parameters."""
    asked = tuple(str(st.query_params.get("searches", ""))[:2000].split(","))
    sweeps = once(("strategy sweeps", asked), lambda: strategy_sweeps(connection, asked))
    if not any(sweep["ok"] for sweep in sweeps):
        empty_state("No search has been measured yet: nothing is known about strategies." if not sweeps else
                    "No search has ended well yet; Live says how it stands, or launch another.",
                    "Launch the small comparison: three stores, about a minute", "pages/Launch.py",
                    query={"preset": "search-strategies-small"})
        return
    names = {sweep["sweep_id"]: f"{sweep['name']} · {sweep['created_at']:%Y-%m-%d %H:%M}" for sweep in sweeps}
    newest = next(sweep["sweep_id"] for sweep in sweeps if sweep["ok"])
    chosen = choose_many("Sweeps", list(names), "searches", lambda sweep_id: names[sweep_id], [newest])
    rows = once(("strategy runs", *chosen), lambda: strategy_runs(connection, chosen))
    runs = [as_search_run(row, defaults) for row in rows]
    cells = compare_strategies(runs)
    if not cells:
        st.info("No run of these sweeps can be compared: choose others.")
        return
    setting = _choose_setting(cells, defaults)
    cells = [cell for cell in cells if cell.setting == setting]
    if resumed := sum(run.resumed and run.setting == setting for run in runs):
        st.info(f"{resumed} runs were killed and resumed: part of their work was done before, so their times are left "
                "out.")
    _draw_comparison(cells)
    stores = list(dict.fromkeys(cell.snapshots for cell in cells))
    snapshots = choose("Store", stores, "store", store_title) or stores[0]
    here = [cell for cell in cells if cell.snapshots == snapshots]
    members = [row for row, run in zip(rows, runs, strict=True) if (run.snapshots, run.setting) == (snapshots, setting)]
    results = once(("strategy results", snapshots, setting, *chosen), lambda: _read_results(members, home, defaults))
    rankings = {name: {ranked["model"]: ranked["score"] for ranked in result["ranking"]}
                for name, result in results.items()}
    winners = find_winners(rankings)
    _draw_groups(here, winners)
    _draw_ranking(rankings, winners)
    _draw_tree(results)
    _draw_scaling(here, snapshots, json.loads(setting))


def _choose_setting(cells: Sequence[StrategyTimes], defaults: Row) -> str:
    """Only runs with the same setting are compared; several are told apart by what differs. A link knows one by what is
    not the default in it: so it stays the same when there are other settings, or parameters are added."""
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    if len(settings) == 1:
        return settings[0]
    read = [json.loads(setting) for setting in settings]
    apart = [name for name in read[0] if len({json.dumps(one.get(name)) for one in read}) > 1]
    known: dict[str, str] = {}
    labels: dict[str, str] = {}
    for setting, one in zip(settings, read, strict=True):
        own = {name: value for name, value in one.items() if value != defaults.get(name)}
        identity = lasting_id(own)
        known[identity], labels[identity] = setting, ", ".join(f"{name}={one.get(name)}" for name in apart)
    return known[choose("Setting", list(known), "setting", lambda identity: labels[identity]) or next(iter(known))]


def _draw_comparison(cells: list[StrategyTimes]) -> None:
    frame = faster_frame(cells)
    if frame.empty:
        st.markdown(about_faster(cells))
        return
    draw_figure(about_faster(cells), faster_dots(frame), frame, "search_speed_up",
                published_note([cell.snapshots for cell in cells])
                + "Lines are 95 % intervals over runs; the grey tick is what the saved work alone would give.")


def _draw_groups(cells: list[StrategyTimes], winners: Mapping[str, Winner]) -> None:
    frame = group_frame(cells)
    draw_figure(about_groups(cells), group_bars(frame), frame.drop(columns=["phase", "place"]), "search_time_by_group",
                "Means over runs. Waiting for weights is what reading ahead could not hide.")
    work = pd.DataFrame([_work_row(cell, winners.get(cell.strategy)) for cell in cells])
    st.dataframe(work, hide_index=True, height="content", alt="Work and memory by strategy")
    draw_rows_button(work, "search_work", "Means over the same runs (of times the geometric one), and of memory the "
                     "highest. Block-item pairs: how often a block ran on an item. The bound is each distinct prefix "
                     "once for each item that some model left in the search has to see. Inference was priced with "
                     "block costs before it began.")


def _work_row(cell: StrategyTimes, winner: Winner | None) -> Row:
    bound = cell.bound_block_items if cell.strategy.startswith("shared") else None
    return {"Strategy": TITLES.get(cell.strategy, cell.strategy), "Time": seconds(cell.seconds.value),
            "Runs": f"{cell.runs}" + (f", {cell.noisy_runs} noisy" if cell.noisy_runs else ""),
            "Best model": winner.model if winner else "–",
            "Its rank under exhaustive": str(winner.exhaustive_rank or "–") if winner else "–",
            "Block-item pairs": f"{cell.block_items:,.0f}", "Lower bound": f"{bound:,.0f}" if bound else "–",
            "Work": _share_of_work(cell), "Blocks loaded": f"{cell.loads:,.0f}",
            "Inference, priced / measured": f"{seconds(cell.priced_s)} / {seconds(cell.phases_s.get('inference'))}",
            "Peak of activations": size(cell.activation_peak_bytes), "Planned peak": size(cell.predicted_peak_bytes),
            "Kept for others": size(cell.kept_peak_bytes)}


def _share_of_work(cell: StrategyTimes) -> str:
    if cell.strategy == BASELINE:
        return "100%"
    return f"{1 / cell.less_work:.1%}" if cell.less_work else "–"


def _asked(row: Row, defaults: Row, name: str) -> Any:
    return row["asked"].get(name, defaults.get(name))


def _draw_ranking(rankings: Mapping[str, Mapping[str, float]], winners: Mapping[str, Winner]) -> None:
    """The best models of exhaustive search, or of the first strategy there is, and where the others put them."""
    if not winners:
        return
    st.markdown(about_winners(winners, max(map(len, rankings.values()))))
    first = next(iter(winners))
    shown = dict.fromkeys([*list(rankings[first])[:RANKS_SHOWN], *(winner.model for winner in winners.values())])
    ranks = {name: {model: rank for rank, model in enumerate(rankings[name], 1)} for name in winners}
    title = TITLES.get(first, first)
    table = pd.DataFrame([{
        "Model": model, f"Score ({title})": number(rankings[first][model]) if model in rankings[first] else "–",
        **{f"Rank ({TITLES.get(name, name)})": str(ranks[name].get(model, "–")) for name in winners}}
        for model in shown])
    st.dataframe(table, hide_index=True, height="content", alt="Ranks of the best models by strategy")
    draw_rows_button(table, "search_ranking", f"The best of {title} and the best of each, from one run of each over "
                     "the same store. Halving ranks a model that left early by the few items it had seen.")


def _draw_tree(results: Mapping[str, Row]) -> None:
    """From a run that saw all items with all models, if there is one."""
    result = next((results[name] for name in sorted(results, key=lambda name: name.endswith("halving"))), None)
    if result is None:
        st.caption("The plan's tree is not there: the file that a run leaves was removed.")
        return
    if not result["parts"]:
        st.caption("The models share too little to draw: there are thousands of parts.")
        return
    frame = tree_frame(result["parts"], result["ranking"])
    draw_figure(about_tree(result["parts"]), tree_rectangles(frame), frame.drop(columns=["left", "best"]),
                "search_tree", "A rectangle is a part without a fork, as tall as the models that share it; it runs "
                "once per item. The best model's own part has an orange border.")


def _read_results(rows: list[Row], home: Home, defaults: Row) -> dict[str, Row]:
    """By strategy, exhaustive first: what a run of each left, all of one seed, because another draws other models."""
    by_seed: dict[Any, dict[str, Row]] = {}
    for row in rows:
        found, strategy = by_seed.setdefault(_asked(row, defaults, "seed"), {}), str(_asked(row, defaults, "strategy"))
        if row["path"] and strategy not in found and (result := _read_result(row, home)):
            found[strategy] = result
    most = max(by_seed.values(), key=lambda found: (BASELINE in found, len(found)), default={})
    return {name: most[name] for name in (*ORDER, *(set(most) - set(ORDER))) if name in most}


def _read_result(row: Row, home: Home) -> Row | None:
    folder = home.sweep(row["sweep_id"]).path.resolve()
    path = (folder / row["path"]).resolve()
    try:
        if not path.is_relative_to(folder) or path.stat().st_size > LARGEST_FILE:
            return None
        content: Row = json.loads(path.read_bytes())
        content["parts"], content["ranking"] = list(content["parts"]), [
            {"model": str(ranked["model"]), "score": float(ranked["score"])} for ranked in content["ranking"]]
        return content
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _draw_scaling(cells: list[StrategyTimes], snapshots: str, setting: Row) -> None:
    st.subheader("Scaling to 50,000 models", anchor="scaling")
    if snapshots not in SHARES:
        st.caption("For an imported store it is not known how it would grow; synthetic ones can be scaled.")
        return
    items = int(choose_number("Items", 100, MOST_ITEMS, 200_000, "scale_items", width=200,
                                help="That the models which stay until the end see."))
    store = Store(int(setting["blocks"]), *SHARES[snapshots])
    chunk = int(setting["batch_size"])
    rows: list[Row] = []
    last: dict[str, float] = {}
    by_name = {cell.strategy: cell for cell in cells if cell.strategy in ORDER}
    prices = find_prices(by_name, chunk)
    if not prices:
        st.caption("These runs have no block costs: there is nothing to compute from.")
        return
    for name, price in prices.items():
        for models in MODELS_SHOWN:
            if name.endswith("halving") and not can_halve(models, items):
                continue
            work = count_work(name, store, models, items, chunk)
            rows.append({"Strategy": TITLES[name], "Models": models, "seconds": price.price(work),
                         "Block-item pairs": work.block_items})
            last[name] = price.price(work) if models == MODELS_SHOWN[-1] else 0.0
    assumed = [{"Strategy": TITLES[name], "Block, per item": seconds(price.item_s),
                "Block, per call": seconds(price.call_s), "Measured / priced": f"{price.measured_over_priced:.2f}",
                "Wait per load": seconds(price.load_s), "Head": seconds(price.head_s),
                "Head, per item": seconds(price.head_item_s),
                "From": f"{by_name[name].runs} runs, {by_name[name].items:,} items"} for name, price in prices.items()]
    unit, unit_s = ("h", 3600.0) if max(row["seconds"] for row in rows) > 7200 else ("s", 1.0)
    frame = pd.DataFrame(rows)
    frame[f"Time ({unit})"] = frame.pop("seconds") / unit_s
    note = f"Computed from measured costs, not measured. Items: {items:,}."
    if not can_halve(MODELS_SHOWN[-1], items):
        note += (f" Halving {MODELS_SHOWN[-1]:,} models needs {items_to_halve(MODELS_SHOWN[-1]):,} items, or its first "
                 "round has too few for a score.")
    draw_figure(about_scaling(last, MODELS_SHOWN[-1]), scaling_lines(frame, unit), frame, "search_scaling", note)
    st.markdown("**Assumptions**")
    st.dataframe(pd.DataFrame(assumed), hide_index=True, height="content", alt="Measured costs behind the scaling")
    st.caption(safe(
        "Block costs were measured before each search; measured / priced is what the computing that was done really "
        "took against them, and stays the same at every size, as do the waits. Heads are fitted over all strategies. "
        f"The store grows as this one did: models of {store.blocks} blocks, {store.mean:.0%} of them new on average. "
        f"Items go in chunks of {chunk}, as if the budget allowed them. Who survives a round of halving is random; "
        "relatives that stay together would share more. Planning and what no phase covers are in measured / priced; "
        "preparing items and the memory for features are not in it."))
