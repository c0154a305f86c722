"""A sweep's figures as one HTML file, from the command line: the pages are run without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from streamlit.config import get_config_options
from streamlit.logger import set_log_level

from begin import lend
from engine.params import InputError
from store.database import Store
from store.keeper import Activity, Keeper
from store.provenance import find_provenance
from ui.exhibits import make_page_exhibits
from ui.frame import PAGES
from ui.html_export import make_html


def export_html(store: Store, sweep_id: str, experiment: str, out: Path) -> int:
    """Every chart and table that Live and the pages that answer its question draw of this sweep; returns how many
    charts."""
    get_config_options()  # read now: reading them sets the level of its messages
    set_log_level("error")  # Streamlit would warn that nobody serves these pages
    keeper = Keeper(store, lambda: Activity([], False)).rest()
    lend(keeper)
    pages = [("Live", {"sweep": sweep_id}), *((page.title, page.link_to(experiment, sweep_id)) for page in PAGES
                                              if experiment in page.answers)]
    found = [exhibit for title, link in pages for exhibit in make_page_exhibits(store.cursor(), title, link)
             if sweep_id in [sweep["sweep_id"] for sweep in exhibit.sweeps]]
    if not found:
        raise InputError(f"sweep {sweep_id}: no page draws a chart of it, or no run has finished; "
                         "take its rows with --format csv")
    (sweep,) = find_provenance(store.connection, [sweep_id])
    part = out.with_name(out.name + ".part")
    part.write_text(make_html(sweep["name"] or sweep_id, [(exhibit, "") for exhibit in found],
                              f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))
    part.replace(out)
    return sum(bool(exhibit.spec) for exhibit in found)
