"""Experiments are found by their folder; a broken one is listed with its error and hides nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from engine.home import PROJECT
from engine.params import InputError
from engine.registry import FOLDER, Broken, Experiment, find, load_all

GOOD = '''"""How long does {name} take?"""

from engine.params import Params


def run(params, recorder):
    pass
'''
BROKEN = {
    "bad_syntax": ("def (:\n", "SyntaxError: invalid syntax (bad_syntax.py, line 1)"),
    "not_text": ("\0", "source code string cannot contain null bytes"),
    "bad_import": ('"""Why?"""\nimport no_such_library\n', "ModuleNotFoundError: No module named 'no_such_library'"),
    "raises": ('"""Why?"""\nraise RuntimeError("no, not today")\n', "RuntimeError: no, not today"),
    "no_params": ('"""Why?"""\ndef run(params, recorder): ...\n', "the file needs a class Params(engine"),
    "other_params": ('"""Why?"""\nclass Params: ...\ndef run(params, recorder): ...\n', "needs a class Params("),
    "no_run": ('"""Why?"""\nfrom engine.params import Params\n', "the file needs a function run(params, recorder)"),
    "no_question": ("from engine.params import Params\ndef run(params, recorder): ...\n",
                    "the file needs a docstring that asks its question"),
    "empty_file": ("", "the file needs a docstring that asks its question"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of experiments outside the project, as a person would name it. Modules of it are forgotten again."""
    monkeypatch.setenv("PHASELAB_EXPERIMENTS", str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("phaselab_experiments"):
            del sys.modules[name]


def add(folder: Path, name: str, text: str = GOOD) -> None:
    (folder / f"{name}.py").write_text(text.replace("{name}", name))


def refusal(name: str) -> str:
    with pytest.raises(InputError) as caught:
        find(name)
    return str(caught.value)


def test_the_projects_own_experiments_are_all_sound() -> None:
    found = load_all([FOLDER])
    assert "inference" in found
    assert not [one for one in found.values() if isinstance(one, Broken)]


def test_experiments_are_found_by_their_folder(folder: Path) -> None:
    add(folder, "second")
    add(folder, "first")
    add(folder, "_private")
    (folder / "notes.txt").write_text("not an experiment")
    found = load_all()
    assert set(found) == {*load_all([FOLDER]), "first", "second"}
    first = find("first")
    assert first == found["first"]
    assert (first.name, first.question) == ("first", "How long does first take?")
    assert first.check is first.prepare is first.cannot_run is None


def test_folder_that_is_not_there_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASELAB_EXPERIMENTS", str(folder / "nowhere"))
    with pytest.raises(InputError, match="no such folder"):
        load_all()


def test_optional_parts_are_taken_up(folder: Path) -> None:
    add(folder, "full", GOOD + "\n\ndef check(cells, cache): ...\ndef prepare(cells, cache, progress): ...\n"
                               "def cannot_run(params, gpus): return 'never'\n")
    full = find("full")
    assert full.check is not None
    assert full.prepare is not None
    assert full.cannot_run is not None
    assert full.cannot_run(None, None) == "never"


def test_broken_files_are_listed_with_their_error_beside_the_sound_ones(folder: Path) -> None:
    add(folder, "aaa_first")
    add(folder, "zzz_last")
    for name, (text, _) in BROKEN.items():
        add(folder, name, text)
    found = load_all()
    for name, (_, error) in BROKEN.items():
        broken = found[name]
        assert isinstance(broken, Broken), name
        assert error in broken.error, name
        assert "\n" not in broken.error, name
    assert {name for name, one in found.items() if isinstance(one, Experiment)} == {
        *load_all([FOLDER]), "aaa_first", "zzz_last"}


def test_asking_for_a_broken_one_says_what_is_wrong_and_what_to_do(folder: Path) -> None:
    add(folder, "bad_import", BROKEN["bad_import"][0])
    assert refusal("bad_import") == ("experiment bad_import is broken: ModuleNotFoundError: No module named "
                                     "'no_such_library'; repair bad_import.py and try again")


def test_unknown_experiment_is_refused_with_a_suggestion(folder: Path) -> None:
    add(folder, "training")
    names = ", ".join(sorted({*load_all([FOLDER]), "training"}))
    assert refusal("trainin") == f"experiment=trainin: no such experiment; did you mean training? (there are {names})"
    assert refusal("zzz") == f"experiment=zzz: no such experiment (there are {names})"


@pytest.mark.parametrize("name", ["", ".", "..", "../engine/run", "/etc/passwd", "inference.py", "__init__", "a b",
                                  "inference\0", "os.path"])
def test_name_is_never_a_way_to_another_file(name: str) -> None:
    assert "no such experiment" in refusal(name)


def test_file_repaired_after_a_failed_import_is_taken(folder: Path) -> None:
    add(folder, "mended", BROKEN["bad_syntax"][0])
    assert isinstance(load_all()["mended"], Broken)
    add(folder, "mended")
    assert find("mended").question == "How long does mended take?"


@pytest.mark.parametrize("fault", ["no_question", "no_params", "no_run"])
def test_file_repaired_after_it_lacked_a_part_is_taken(folder: Path, fault: str) -> None:
    """The app lives for days: `repair it and try again` must not need a restart."""
    add(folder, "mended", BROKEN[fault][0])
    assert isinstance(load_all()["mended"], Broken)
    add(folder, "mended")
    assert find("mended").question == "How long does mended take?"


def test_same_name_in_another_folder_is_another_experiment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("one", "two"):
        (folder / place).mkdir()
        add(folder / place, "twin", GOOD.replace("{name}", place))
        monkeypatch.setenv("PHASELAB_EXPERIMENTS", str(folder / place))
        assert find("twin").question == f"How long does {place} take?"


def test_file_that_exits_at_import_is_only_broken_itself(folder: Path) -> None:
    add(folder, "leaves", '"""Why?"""\nimport sys\nsys.exit("needs a GPU")\n')
    add(folder, "stays")
    found = load_all()
    assert isinstance(found["stays"], Experiment)
    assert found["leaves"] == Broken("leaves", "SystemExit: needs a GPU")


def test_error_of_several_lines_is_one_sentence(folder: Path) -> None:
    add(folder, "wordy", '"""Why?"""\nraise ValueError("first line\\nsecond line")\n')
    assert "\n" not in refusal("wordy")


def test_file_that_cannot_be_asked_for_is_not_offered(folder: Path) -> None:
    add(folder, "my-test")
    assert "did you mean my-test" not in refusal("my-test")


def test_file_whose_name_is_wrong_is_listed_as_broken(folder: Path) -> None:
    add(folder, "my-test")
    assert isinstance(load_all()["my-test"], Broken)


def test_listing_all_experiments_loads_no_torch() -> None:
    """Asked of a fresh interpreter, with the experiments of the tests as well."""
    code = ("import sys; from engine.registry import Experiment, load_all\n"
            "print(sum(isinstance(one, Experiment) for one in load_all().values()))\n"
            "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'torchvision'}))")
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True,
                          env={"PHASELAB_EXPERIMENTS": str(PROJECT / "tests" / "experiments"), "PATH": "/usr/bin:/bin"})
    count, loaded = done.stdout.splitlines()
    assert int(count) >= 2
    assert loaded == "[]"


def test_visitors_who_come_at_once_all_get_the_whole_experiment(folder: Path) -> None:
    add(folder, "slow", '"""How long?"""\nimport time\ntime.sleep(0.3)\n' + GOOD.split("\n", 1)[1])
    together = Barrier(8)

    def ask() -> Experiment:
        together.wait()
        return find("slow")

    with ThreadPoolExecutor(8) as visitors:
        found = [visitor.result() for visitor in [visitors.submit(ask) for _ in range(8)]]
    assert len({id(experiment.run) for experiment in found}) == 1
