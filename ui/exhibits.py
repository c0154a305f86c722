"""A figure that left its page: its chart as JSON with its rows, its sentence, and where every number comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from store.boards import Item, frozen_figure
from store.keeper import Keeper
from store.provenance import count_results, find_provenance, named_sweeps
from ui.figure import Figure
from ui.picking import RUN_IDS
from ui.replay import NOT_THERE, Replayed, replay

if TYPE_CHECKING:
    import duckdb

MOVES_ALWAYS = ("Live",)
"""Pages whose charts change between two results, too."""


class Exhibit(NamedTuple):
    name: str
    page: str
    sentence: str
    note: str
    spec: dict[str, Any]
    """Empty for a table."""
    columns: list[str]
    rows: list[list[Any]]
    link: dict[str, str]
    sweeps: list[dict[str, Any]]
    shown_at: str
    """The moment at which these were the numbers."""
    trouble: str = ""
    """Why there is nothing to be seen."""

    @property
    def label(self) -> str:
        """Which chart of which page, and what was chosen there besides sweeps: two may make the same sentence."""
        chosen = [f"{name} {value}" for name, value in self.link.items() if not named_sweeps([value])]
        return " · ".join([self.page, self.name.replace("_", " "), *chosen])[:400]

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=self.columns)


def make_exhibits(asking: duckdb.DuckDBPyConnection, page: str, link: Mapping[str, str], wanted: str = "",
                  ) -> list[Exhibit]:
    """What the page shows for this link now; with `wanted` only that chart, or why it is not there."""
    replayed = replay(page, link, wanted)
    if wanted and not replayed.figures:
        return [without_chart(wanted, page, dict(link), replayed.trouble)]
    return _exhibit_all(asking, page, replayed)


def exhibit_drawn(asking: duckdb.DuckDBPyConnection, page: str, link: Mapping[str, str], figure: Figure) -> Exhibit:
    """A figure as it was drawn: also one that its page would not draw again, as when its query is not in the link."""
    return _exhibit_all(asking, page, Replayed([figure], dict(link), {}, ""))[0]


def make_page_exhibits(asking: duckdb.DuckDBPyConnection, page: str, link: Mapping[str, str]) -> list[Exhibit]:
    """What a page shows for this link with each of its views opened in turn."""
    first = replay(page, link)
    found = _exhibit_all(asking, page, first)
    for name, labels in first.views.items():
        for label in labels:
            if label != first.link.get(name, labels[0]):
                found += _exhibit_all(asking, page, replay(page, {**first.link, name: label}))
    return list({exhibit.name: exhibit for exhibit in found}.values())


def find_exhibit(keeper: Keeper, asking: duckdb.DuckDBPyConnection, item: Item) -> Exhibit:
    """What an item of a board shows: asked once for all who look, until there is a new result."""
    if item.frozen_at is not None:
        kept = keeper.once(("frozen", item.item_id), lambda: frozen_figure(asking, item), version=item.frozen_at)
        return thaw(kept) if kept else without_chart(item.chart, item.page, item.link, NOT_THERE)
    version: Any = keeper.changes if item.page in MOVES_ALWAYS \
        else keeper.once("results", lambda: count_results(asking))
    if item.page == "Machine":
        check = keeper.store.home.noise_check  # a file, not a result: a new one changes nothing in the store
        version = (version, check.stat().st_mtime_ns if check.exists() else None)
    return keeper.once(("exhibit", item.page, item.chart, *sorted(item.link.items())),
                       lambda: make_exhibits(asking, item.page, item.link, item.chart)[0], version=version)


def stand_in(item: Item) -> Exhibit:
    """For a live slide in a file, which cannot have one."""
    return without_chart(item.chart, item.page, item.link, "A live slide: in the lab it shows what is being measured "
                         "at that moment. A file cannot.")


def without_chart(name: str, page: str, link: dict[str, str], trouble: str) -> Exhibit:
    return Exhibit(name, page, "", "", {}, [], [], link, [], _now(), trouble)


def freeze(exhibit: Exhibit) -> dict[str, Any]:
    return exhibit._asdict()


def thaw(kept: Mapping[str, Any]) -> Exhibit:
    return Exhibit(**kept)


def tell_provenance(sweeps: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence per sweep and environment, as plain text."""
    told = []
    for sweep in sweeps:
        what = f"{sweep['name'] or sweep['experiment']} ({sweep['sweep_id']}), {sweep['created_at']}"
        if sweep["source"] == "imported":
            told.append(f"{what}: imported, nothing is known about the machine that measured it")
        told += [f"{what}: {_tell_environment(found)}" for found in sweep["environments"]]
        if not sweep["environments"] and sweep["source"] != "imported":
            told.append(f"{what}: no run has begun")
    return told


def _tell_environment(found: Mapping[str, Any]) -> str:
    cores = f"{found['cores']:g} cores" if found["cores"] else "cores unknown"
    devices = ", ".join(found["gpus"]) + f" (driver {found['driver'] or 'unknown'})" if found["gpus"] else "no GPU"
    commit = f"commit {found['commit'][:10]}" if found["commit"] else "commit unknown"
    return (f"{found['hostname'] or 'unknown machine'}, {found['cpu_model'] or 'unknown CPU'}, {cores}, {devices}; "
            f"torch {found['torch'] or 'unknown'}, Python {found['python'] or 'unknown'}; {commit}"
            + (" with changes that are not committed" if found["changed_since_commit"] else ""))


def _exhibit_all(asking: duckdb.DuckDBPyConnection, page: str, replayed: Replayed) -> list[Exhibit]:
    exhibits = []
    for figure in replayed.figures:
        rows = figure.rows
        table = json.loads(rows.to_json(orient="split", date_format="iso", double_precision=15, index=False))
        sweeps = find_provenance(asking, named_sweeps(_sources(figure, rows, replayed.link)))
        exhibits.append(Exhibit(figure.name, page, figure.sentence, figure.note, figure.spec(),
                                table["columns"], table["data"], replayed.link, sweeps, _now()))
    return exhibits


def _sources(figure: Figure, rows: pd.DataFrame, link: Mapping[str, str]) -> list[str]:
    """Where ids of sweeps stand: the runs behind the marks are certain; without them it is what the link names."""
    if not figure.measured:
        return []
    behind = [ids for ids in rows[RUN_IDS].astype(str) if ids] if RUN_IDS in rows else []
    return behind or [figure.name, *link.values()]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
