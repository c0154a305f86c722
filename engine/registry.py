"""Experiments, found by their folder. One that cannot be imported is listed as broken, with its error.

A folder named by PHASELAB_EXPERIMENTS is searched too, for experiments kept outside the project.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from engine.params import InputError, Params, suggestion

if TYPE_CHECKING:
    from engine.recorder import Recorder

FOLDER = Path(__file__).parent / "experiments"
_loading = threading.RLock()
"""Visitors' pages run in threads: nobody may meet a module that another thread has only begun to import."""


@dataclass(frozen=True)
class Experiment:
    """A question the lab can measure."""

    name: str
    question: str
    Params: type[Params]
    run: Callable[[Any, Recorder], None]
    check: Callable[..., None] | None
    """`check(all_params, cache)`: raises InputError for what is missing on this machine's disk, without torch."""
    prepare: Callable[..., None] | None
    """`prepare(all_params, cache, progress)`: work done once before the runs of a sweep, such as making images."""
    cannot_run: Callable[..., str | None] | None
    """`cannot_run(params, gpus)`: why a cell cannot run on this machine, known without torch."""


@dataclass(frozen=True)
class Broken:
    name: str
    error: str


def folders() -> list[Path]:
    extra = os.environ.get("PHASELAB_EXPERIMENTS")
    if extra and not Path(extra).is_dir():
        raise InputError(f"PHASELAB_EXPERIMENTS={extra}: no such folder; correct it or unset it")
    return [FOLDER, Path(extra)] if extra else [FOLDER]


def load_all(where: list[Path] | None = None) -> dict[str, Experiment | Broken]:
    """Every experiment by name, the broken ones too."""
    found: dict[str, Experiment | Broken] = {}
    for file in [f for folder in where or folders() for f in sorted(folder.glob("*.py")) if not f.stem.startswith("_")]:
        if file.stem in found:
            # Its cells would share keys with the other's: that must not happen silently.
            found[f"{file.stem} ({file.parent})"] = Broken(file.stem, "the name is taken; rename the file")
        else:
            found[file.stem] = _load(file)
    return found


def find(name: str) -> Experiment:
    """One experiment, or a sentence saying which there are."""
    for folder in folders():
        file = folder / f"{name}.py"
        if name.isidentifier() and not name.startswith("_") and file.is_file():
            found = _load(file)
            if isinstance(found, Broken):
                raise InputError(f"experiment {name} is broken: {found.error}; repair {file.name} and try again")
            return found
    known = sorted(name for name in load_all() if name.isidentifier())
    raise InputError(f"experiment={name}: no such experiment{suggestion(name, known)} (there are {', '.join(known)})")


def default_values(name: str) -> dict[str, Any]:
    """What a run had that does not name a parameter: parameters are added with a default that keeps the old way."""
    try:
        return {field: about.default for field, about in find(name).Params.model_fields.items()}
    except InputError:
        return {}  # the experiment has gone since; its runs say what they say


def _load(file: Path) -> Experiment | Broken:
    # Whatever an experiment's file raises while it is imported makes that one experiment broken, not the lab.
    if not file.stem.isidentifier():
        return Broken(file.stem, "the file's name must be letters, digits and underscores; rename it")
    with _loading:
        try:
            return _read(_module(file), file.stem)
        except (Exception, SystemExit) as error:
            sys.modules.pop(_module_name(file), None)  # so that a repaired file is read again
            first_line = (str(error).strip().splitlines() or ["no message"])[0]
            return Broken(file.stem, f"{type(error).__name__}: {first_line}")


def _module_name(file: Path) -> str:
    """One name per file: experiments of the same name in two folders are two modules."""
    if file.parent == FOLDER:
        return f"engine.experiments.{file.stem}"
    return f"phaselab_experiments_{hashlib.sha256(str(file.parent.absolute()).encode()).hexdigest()[:8]}.{file.stem}"


def _module(file: Path) -> ModuleType:
    name = _module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, f"{file} is a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _read(module: ModuleType, name: str) -> Experiment:
    question = (module.__doc__ or "").strip()
    if not question:
        raise TypeError("the file needs a docstring that asks its question")
    if not (isinstance(getattr(module, "Params", None), type) and issubclass(module.Params, Params)):
        raise TypeError("the file needs a class Params(engine.params.Params)")
    if not callable(getattr(module, "run", None)):
        raise TypeError("the file needs a function run(params, recorder)")
    return Experiment(name, question, module.Params, module.run, getattr(module, "check", None),
                      getattr(module, "prepare", None), getattr(module, "cannot_run", None))
