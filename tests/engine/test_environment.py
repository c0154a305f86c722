"""The fingerprint: the same twice, honest about the code it was measured with, and free of secrets."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.environment import LIBRARIES, Environment, fingerprint
from engine.nvml import Gpus

TORCH_FACTS = {"version": "2.15.0", "threads": 2, "capability": (8, 0)}


def take(project: Path) -> Environment:
    gpus = Gpus.open()
    try:
        return fingerprint(TORCH_FACTS, gpus, project)
    finally:
        gpus.close()


def git(repository: Path, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *who, "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git(tmp_path, "init", "--quiet")
    (tmp_path / "model.py").write_text("width = 32\n")
    git(tmp_path, "add", "model.py")
    git(tmp_path, "commit", "--quiet", "--message", "First")
    return tmp_path


def test_the_same_machine_has_the_same_id_twice(tmp_path: Path) -> None:
    first, second = take(tmp_path), take(tmp_path)
    assert first == second
    assert len(first.environment_id) == 12
    assert set(first.environment_id) <= set("0123456789abcdef")


def test_facts_survive_the_journal_unchanged(tmp_path: Path) -> None:
    facts = take(tmp_path).facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["torch"] == {"version": "2.15.0", "threads": 2, "capability": [8, 0]}


def test_another_torch_is_another_environment(tmp_path: Path) -> None:
    gpus = Gpus.open()
    assert fingerprint({"version": "1"}, gpus, tmp_path) != fingerprint({"version": "2"}, gpus, tmp_path)
    gpus.close()


def test_versions_are_known_or_none(tmp_path: Path) -> None:
    libraries = take(tmp_path).facts["libraries"]
    assert set(libraries) == set(LIBRARIES)
    assert libraries["psutil"]
    assert all(version is None or version[0].isdigit() for version in libraries.values())


def test_a_secret_in_the_environment_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-do-not-store"
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "NCCL_SECRET", "CUDA_VISIBLE_DEVICES_TOKEN", "OMP_NUM_THREADS_X"):
        monkeypatch.setenv(name, secret)
    # What is loaded matters, the folder does not.
    monkeypatch.setenv("LD_PRELOAD", f"/home/{secret}/libjemalloc.so.2 /opt/libb.so")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    environment = take(tmp_path)
    assert secret not in json.dumps(environment.facts)
    assert environment.facts["variables"]["OMP_NUM_THREADS"] == "3"
    assert environment.facts["variables"]["LD_PRELOAD"] == "libjemalloc.so.2:libb.so"


def test_a_setting_that_matters_to_speed_changes_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = take(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert take(tmp_path).environment_id != before.environment_id


def test_the_commit_and_changes_to_tracked_files_are_told(repository: Path) -> None:
    clean = take(repository).facts
    assert clean["git_commit"] == git(repository, "rev-parse", "HEAD")
    assert clean["git_dirty"] is False

    (repository / "notes.txt").write_text("not told to git\n")
    assert take(repository).facts["git_dirty"] is False

    (repository / "model.py").write_text("width = 64\n")
    assert take(repository).facts["git_dirty"] is True


def test_git_variables_of_a_hook_do_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / "elsewhere"))
    assert take(repository).facts["git_commit"] == git(repository, "rev-parse", "HEAD")


def test_no_repository_means_unknown_not_clean(tmp_path: Path) -> None:
    facts = take(tmp_path).facts
    assert (facts["git_commit"], facts["git_dirty"]) == (None, None)


def test_no_git_means_unknown(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    facts = take(repository).facts
    assert (facts["git_commit"], facts["git_dirty"]) == (None, None)
