"""Memory of the process that will host the app: everything its pages import and an open store, but no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any

from comparison import Estimate, estimate, print_report, progress, ratio

ROUNDS = 8
KINDS = ("rss_bytes", "pss_bytes", "uss_bytes")
HOST = """
import importlib, json, pkgutil, sys
from pathlib import Path
import altair, duckdb, psutil, streamlit
import analysis, engine.launch, engine.registry, store.queries, ui
from engine.home import Home
from store.database import Store

for room in (analysis, ui):
    for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
        importlib.import_module(module.name)
experiments = engine.registry.load_all()
if sys.argv[2] == "with_torch":
    import torch, torchvision
with Store.open(Home(Path(sys.argv[1]))) as opened:
    store.queries.list_sweeps(opened.connection)
    memory = psutil.Process().memory_full_info()
    print(json.dumps({"rss_bytes": memory.rss, "pss_bytes": memory.pss, "uss_bytes": memory.uss,
                      "torch_loaded": "torch" in sys.modules, "modules": len(sys.modules),
                      "experiments": sorted(experiments)}))
"""


def host(variant: str) -> dict[str, Any]:
    """One fresh process with a store of its own."""
    with TemporaryDirectory(prefix="phaselab-bench-") as home:
        answer = subprocess.run([sys.executable, "-c", HOST, home, variant], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def main() -> None:
    found: dict[str, list[dict[str, Any]]] = {"app": [], "with_torch": []}
    for number in range(ROUNDS):
        progress(f"round {number + 1} of {ROUNDS}")
        for variant, processes in found.items():
            processes.append(host(variant))
    sizes: dict[str, dict[str, Estimate]] = {
        variant: {kind: estimate([process[kind] for process in processes]) for kind in KINDS}
        for variant, processes in found.items()}
    times = {kind: ratio([process[kind] for process in found["with_torch"]], [p[kind] for p in found["app"]])
             for kind in KINDS}
    loaded = any(process["torch_loaded"] for process in found["app"])
    assert all(process["torch_loaded"] for process in found["with_torch"])
    print_report(
        "app_memory", "Memory of an interpreter with all that the app imports and an open store; and with torch.",
        {"torch_loaded": loaded, "modules": found["app"][-1]["modules"], "experiments": found["app"][-1]["experiments"],
         **sizes, "with_torch_to_app": times},
        [{"name": "torch loaded in the app process", "limit": False, "value": loaded, "interval": None,
          "met": not loaded}])


if __name__ == "__main__":
    main()
