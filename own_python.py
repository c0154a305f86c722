"""Whoever types `python lab.py` gets the project's own environment, which `make run` made: the system's Python lacks
what the lab needs. Imported before everything else, and without effect where it is not there or not needed."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

OWN = Path(__file__).resolve().with_name(".venv") / "bin" / "python"

if find_spec("msgspec") is None and OWN.exists():
    os.execv(OWN, [str(OWN), *sys.argv])
