"""Files that are made when somebody asks for them, and stay until they have been fetched."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from streamlit import runtime

FILES_KEPT = 20
LARGE_BYTES, LARGE_KEPT = 2**23, 2
"""Bundles and traces have few places of their own: they stay in this process's memory."""
_places = itertools.cycle(f"small {place}" for place in range(FILES_KEPT))
_large_places = itertools.cycle(f"large {place}" for place in range(LARGE_KEPT))


def on_demand(make: Callable[[], str | bytes], name: str, kind: str) -> Callable[[], bytes]:
    """For the data of a download button. Streamlit throws a file that was made on demand away when two scripts of
    anybody have ended, here within a second, often before the browser has fetched it: so it is held at a place of ours.
    """
    def made() -> bytes:
        content = make()
        content = content.encode() if isinstance(content, str) else content
        if runtime.exists():
            place = next(_large_places if len(content) > LARGE_BYTES else _places)
            runtime.get_instance().media_file_mgr.add(content, kind, f"made on demand {place}", name,
                                                      is_for_static_download=True)
        return content

    return made
