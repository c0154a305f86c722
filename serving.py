"""The app's server in this process: it holds the store from the start, whether or not somebody has visited it."""

from __future__ import annotations

import os
import threading

from engine.home import PROJECT, whole_paths
from hand import step_back


def serve(port: int) -> None:
    """Serve until a signal ends it. The store is opened beside, so that the first visitor does not wait for it.

    Watching must not slow the run: the server gives way, by priority, to what is measured.
    """
    os.environ.update(whole_paths())
    os.chdir(PROJECT)  # where .streamlit/config.toml is
    step_back()
    from streamlit.web import cli

    threading.Thread(target=_open_lab, name="opening", daemon=True).start()
    cli.main(["run", "app.py", "--server.port", str(port)])


def _open_lab() -> None:
    from begin import open_keeper
    from store.database import StoreHeld, StoreUnusable

    try:
        open_keeper()
    except (StoreHeld, StoreUnusable):
        return  # every page says so, and what to do
    # What pages need later and what takes long to load.
    import ui.charts
    import ui.moving  # noqa: F401
