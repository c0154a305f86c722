"""A lab in a folder of its own, driven through lab.py as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from warm_lab import WarmLab

from engine.home import PROJECT, Home

WARM = WarmLab()
LIMIT_S = 240.0


class Lab:
    def __init__(self, home: Home, environment: dict[str, str]) -> None:
        self.home, self.environment = home, environment

    @classmethod
    def at(cls, folder: Path) -> Lab:
        """A lab of its own below a folder, with the experiments of the tests."""
        home = Home(folder / "lab")
        return cls(home, {**os.environ, "PHASELAB_HOME": str(home.root), "PHASELAB_MACHINE_LOCK": str(folder / "lock"),
                          "PHASELAB_EXPERIMENTS": str(PROJECT / "tests" / "experiments")})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "lab.py", *arguments], cwd=PROJECT, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, *arguments: str, cold: bool = False) -> tuple[int, str, str]:
        """`cold`: as a shell starts it, with Python and all imports; else a fork of a process that has them."""
        if not cold and WARM.can_run(self.environment):
            return WARM.call(arguments, self.environment, LIMIT_S)
        process = self.start(*arguments)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def json(self, *arguments: str, expect: int | tuple[int, ...] = 0) -> Any:
        code, out, err = self.call(*arguments, "--json")
        allowed = (expect,) if isinstance(expect, int) else expect
        assert code in allowed, f"{arguments} ended with {code}: {out}{err}"
        return json.loads(out)

    def sweep_file(self, **content: Any) -> str:
        """JSON is YAML."""
        path = self.home.root.parent / f"sweep-{len(list(self.home.root.parent.glob('sweep-*')))}.yaml"
        path.write_text(json.dumps(content))
        return str(path)

    def files(self) -> set[str]:
        return {str(p) for p in self.home.root.rglob("*")} if self.home.root.exists() else set()
