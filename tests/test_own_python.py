"""`python lab.py` as people type it: with a Python that has none of the lab's libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from engine.home import PROJECT


def test_the_command_line_finds_the_projects_own_environment(tmp_path: Path) -> None:
    shutil.copy(PROJECT / "own_python.py", tmp_path)
    bare = [sys.executable, "-S", "-I", "-c", "import sys; sys.path.insert(0, '.'); sys.argv = ['lab.py', 'queue']\n"
            "import own_python\nprint('no environment')"]

    def said() -> str:
        return subprocess.run(bare, cwd=tmp_path, text=True, capture_output=True, check=True).stdout

    assert said() == "no environment\n"
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho \"own: $@\"\n")
    own.chmod(0o755)
    assert said() == "own: lab.py queue\n"
