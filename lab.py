"""The lab from the command line: the same engine and store as the app, no browser.

Wrong input ends with one sentence and exit status 2. With --json a command prints one JSON document on stdout.
"""

from __future__ import annotations

import own_python  # noqa: F401

# isort: split
import json
import math
import os
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import to_builtins

from analysis.grid_report import report_regret
from analysis.grids import never_begun, split_grids
from analysis.quietness import Part, assess
from analysis.regret import TOP
from engine import queue
from engine.bundle_file import is_bundle
from engine.bundles import import_bundle, save_bundle
from engine.data import DataError, fetch_imagenette
from engine.doctor import examine
from engine.erasing import erase
from engine.home import PROJECT, Home, lab_home, whole_paths
from engine.importing import import_file
from engine.interrupted import close_interrupted
from engine.journal import JournalDamage
from engine.launch import cancel as cancel_sweep
from engine.launch import extend as extend_sweep
from engine.launch import find_sweep, launch, wait_until_ended
from engine.launch import resume as resume_sweep
from engine.memory_methods import Method
from engine.models import is_text
from engine.noise_check import CHECK_S, LONGEST_S, run_check
from engine.params import InputError, allowed_values
from engine.predict_memory import input_problem
from engine.predictions import MACHINE_BUSY, refuse_while_measuring
from engine.registry import Broken, default_values, load_all
from engine.settings import Precision
from engine.spec import MANY_RUNS, SweepSpec, read_spec
from engine.sweep_state import read_state
from engine.training_step import OptimizerName
from store.compaction import compact as compact_store
from store.database import Store, StoreHeld, StoreUnusable, check_free, try_reading
from store.export import TABLES, export_sweep
from store.grids import grid_runs, unfinished_plans
from store.queries import count_rows, find_run_ids, list_problems, list_runs, list_sweeps, show_run
from ui.terminal_progress import follow_sweep
from ui.terminal_tables import (
    print_doctor,
    print_noise,
    print_prediction,
    print_regret,
    print_run,
    print_runs,
    print_sweeps,
)

PROBLEMS = (InputError, DataError, StoreHeld, StoreUnusable, JournalDamage)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
waiting = click.option("--wait", is_flag=True, help="Show progress and return when the sweep has ended.")
yes = click.option("--yes", is_flag=True, help="Do not ask before a very large sweep.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """PhaseLab: measure deep-learning pipelines, keep every number."""


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@waiting
@yes
@as_json
def sweep(file: Path, wait: bool, yes: bool, as_json: bool) -> None:
    """Start the sweep described in FILE."""
    spec = read_spec(file)
    ask_if_large(spec, yes, as_json)
    tell_outcome(lab_home(), launch(lab_home(), spec), wait, as_json)


@cli.command()
@click.argument("sweep_id", metavar="SWEEP")
@click.option("--failed", is_flag=True, help="Also run again what failed, timed out, was out of memory or skipped.")
@waiting
@as_json
def resume(sweep_id: str, failed: bool, wait: bool, as_json: bool) -> None:
    """Measure what is missing of SWEEP."""
    tell_outcome(lab_home(), resume_sweep(lab_home(), sweep_id, failed), wait, as_json)


@cli.command()
@click.argument("sweep_id", metavar="SWEEP")
@click.argument("file", type=click.Path(path_type=Path))
@waiting
@yes
@as_json
def extend(sweep_id: str, file: Path, wait: bool, yes: bool, as_json: bool) -> None:
    """Add the values and repeats of FILE to SWEEP; cells it has are not measured again."""
    spec = read_spec(file)
    ask_if_large(spec, yes, as_json)
    tell_outcome(lab_home(), extend_sweep(lab_home(), sweep_id, spec), wait, as_json)


@cli.command()
@click.argument("sweep_id", metavar="SWEEP")
@as_json
def cancel(sweep_id: str, as_json: bool) -> None:
    """End SWEEP now; what it has measured is kept."""
    home = lab_home()
    sweep_id = cancel_sweep(home, sweep_id)
    wait_until_ended(home.sweep(sweep_id), 30)
    tell_outcome(home, sweep_id, False, as_json)


@cli.command()
@as_json
def sweeps(as_json: bool) -> None:
    """List the sweeps, newest first."""
    with open_for_reading() as store:
        found = list_sweeps(store.connection)
    line = queue.read_queue(lab_home())
    for sweep in found:
        entry = line.find(sweep["sweep_id"])
        if entry and entry.state == "waiting" and queue.is_paused(line, sweep["sweep_id"]):
            sweep["status"] = "paused"
        sweep["from_bundle"] = lab_home().sweep(sweep["sweep_id"]).bundle.exists()
    print_json({"sweeps": found}) if as_json else print_sweeps(found)


@cli.command()
@click.option("--sweep", "sweep_id", metavar="SWEEP", help="Only the runs of this sweep.")
@as_json
def runs(sweep_id: str | None, as_json: bool) -> None:
    """List runs with their parameters, metrics and phases."""
    only = find_sweep(lab_home(), sweep_id).sweep_id if sweep_id is not None else None
    with open_for_reading(only) as store:
        found = list_runs(store.connection, only)
    print_json({"runs": found}) if as_json else print_runs(found)


@cli.command()
@click.argument("run_id", metavar="RUN")
@as_json
def show(run_id: str, as_json: bool) -> None:
    """Everything about one run."""
    with open_for_reading() as store:
        found = find_run_ids(store.connection, run_id) if run_id else []
        if len(found) != 1:
            problem = f"{len(found)} runs begin like this; give more of the id" if found else \
                "no such run (`python lab.py runs` lists them)"
            raise InputError(f"run {run_id}: {problem}")
        run = show_run(store.connection, found[0])
    folder = lab_home().sweep(run["sweep_id"])
    log = folder.run_log(run["run_id"], run["attempt"])
    run["log"] = log.read_text(errors="replace") if log.exists() else None
    print_json(run) if as_json else print_run(run)


@cli.command()
@as_json
def models(as_json: bool) -> None:
    """Every model: name, kind, parameters, blocks."""
    # Counting needs torch, which this process never loads.
    found = subprocess.run([sys.executable, "-m", "engine.models"], cwd=PROJECT, capture_output=True, text=True)
    if found.returncode:
        raise InputError(f"the models cannot be listed: {(found.stderr.strip().splitlines() or ['no message'])[-1]}")
    listed = json.loads(found.stdout)
    if as_json:
        print_json({"models": listed})
    else:
        for model in listed:
            click.echo(f"{model['name']:<14} {model['kind']:<8} {model['parameters']:>12,} parameters "
                       f"{model['blocks']:>4} blocks")


@cli.command("predict-memory")
@click.option("--model", required=True, help="As `lab.py models` names it.")
@click.option("--batch-size", required=True, type=click.IntRange(1, 1_048_576), help="Images or texts per step.")
@click.option("--method", default="plain", type=click.Choice(get_args(Method)), help="How it is trained.")
@click.option("--image-size", default=224, type=click.IntRange(1, 2048), help="Side of an image in pixels.")
@click.option("--tokens", default=128, type=click.IntRange(1, 512), help="Length of a text, for text models.")
@click.option("--optimizer", default="sgd_momentum", type=click.Choice(get_args(OptimizerName)))
@click.option("--precision", default="fp32", type=click.Choice(get_args(Precision)), help="Of the forward pass.")
@click.option("--blocks-per-checkpoint", default=1, type=click.IntRange(1, 1000),
              help="With checkpoint and selective: so many blocks are computed again at once.")
@click.option("--anyway", is_flag=True, help="Also while something is measured, which it disturbs.")
@as_json
def predict_memory(model: str, batch_size: int, method: Any, image_size: int, tokens: int, optimizer: str,
                   precision: str, blocks_per_checkpoint: int, anyway: bool, as_json: bool) -> None:
    """What a training step would need, without allocating it."""
    size = tokens if is_text(model) else image_size
    if problem := input_problem(model, method, size):
        raise InputError(problem)
    lock = queue.MachineLock()  # held until this process ends
    if not anyway:
        refuse_while_measuring(lab_home())
        if not lock.try_to_take():
            raise InputError(f"{MACHINE_BUSY}, or give --anyway")
    asked = {"model": model, "batch_size": batch_size, "method": method, "size": size, "optimizer": optimizer,
             "precision": precision, "blocks_per_checkpoint": blocks_per_checkpoint}
    # Shapes are followed through torch, which this process never loads; with one thread, to disturb nobody.
    found = subprocess.run([sys.executable, "-m", "engine.predict_memory", json.dumps(asked)], cwd=PROJECT,
                           capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if found.returncode:
        raise InputError(f"this cannot be predicted: {(found.stderr.strip().splitlines() or ['no message'])[-1]}")
    print_json(json.loads(found.stdout)) if as_json else print_prediction(json.loads(found.stdout))


@cli.command()
@click.argument("action", type=click.Choice(["list", "import", "verify", "remove", "clean"]), default="list")
@click.argument("store", default="")
@click.argument("name", default="")
@click.option("--model", default="resnet18", help="For import: the network, as in `lab.py models`.")
@click.option("--image-size", default=224, help="For import: the size of the images it will see.")
@click.option("--state", type=click.Path(path_type=Path), help="For import: its state dict, a safetensors file. "
                                                               "Without one the weights are random.")
@click.option("--seed", default=0, help="For import: seeds random weights.")
@as_json
def snapshots(action: str, store: str, name: str, model: str, image_size: int, state: Path | None, seed: int,
              as_json: bool) -> None:
    """Stores of models to search over: list them, import NAME into STORE, verify, remove NAME, clean unused blocks."""
    asked = {"action": action, "store": store, "name": name, "model": model, "image_size": image_size, "seed": seed,
             "state": str(state.absolute()) if state else None}
    # Weights need torch, which this process never loads.
    found = subprocess.run([sys.executable, "-m", "engine.snapshot_stores"], cwd=PROJECT, capture_output=True,
                           text=True, input=json.dumps(asked), env={**os.environ, **whole_paths()})
    if found.returncode:
        raise InputError((found.stderr.strip().splitlines() or ["the snapshots cannot be read"])[-1])
    answer = json.loads(found.stdout)
    print_json(answer) if as_json else click.echo("\n".join(answer["lines"]))
    if answer.get("problems"):
        sys.exit(1)


@cli.command()
@as_json
def experiments(as_json: bool) -> None:
    """The questions the lab can measure with their parameters, the broken ones with their error."""
    found = load_all()
    if as_json:
        print_json({"experiments": [
            {"name": name, "broken": entry.error} if isinstance(entry, Broken) else
            {"name": name, "question": entry.question, "parameters": entry.Params.model_json_schema()["properties"]}
            for name, entry in found.items()]})
        return
    for name, entry in found.items():
        if isinstance(entry, Broken):
            click.echo(f"{name}: BROKEN: {entry.error}")
            continue
        click.echo(f"{name}: {entry.question.splitlines()[0]}")
        for parameter, field in entry.Params.model_fields.items():
            default = "automatic" if field.default is None else field.default
            click.echo(f"  {parameter} = {default}: {field.description} ({allowed_values(field)})")


@cli.command()
@as_json
def doctor(as_json: bool) -> None:
    """What this machine can measure, and what is missing."""
    report = examine(lab_home())
    if lab_home().root.is_dir():
        with open_for_reading() as store:
            report["journal_problems"] = list_problems(store.connection)
    print_json(report) if as_json else print_doctor(report)


@cli.command()
@click.option("--seconds", type=click.FloatRange(0.1, LONGEST_S), default=CHECK_S, show_default=True)
@as_json
def noise(seconds: float, as_json: bool) -> None:
    """How quiet this machine is: a fixed small load for some seconds, and what its spread means for measuring."""
    check = run_check(lab_home(), seconds)
    found = assess([Part(part.name, part.tracks) for part in check.parts], check.others_cpu_cores, check.steal_share,
                   check.cores_allowed, check.gpu_busy)
    if as_json:
        print_json({"verdict": found.verdict, "reasons": found.reasons, "meaning": found.meaning,
                    "block_spread": found.block_spread, "shown_difference": found.shown, "slowdown": found.slowdown,
                    "parts": [spread._asdict() for spread in found.parts], "check": to_builtins(check)})
    else:
        print_noise(found, check.others_cpu_cores, check.steal_share)


@cli.command()
@as_json
def rebuild(as_json: bool) -> None:
    """Make the store again from the journals alone."""
    home = lab_home()
    close_interrupted(home)
    with Store.open(home, anew=True) as store:
        report = store.ingest()
        rows = count_rows(store.connection)
    if as_json:
        print_json({"rows": rows, "problems": report.problems})
    else:
        click.echo(f"rebuilt {home.store} from the journals: "
                   + ", ".join(f"{count:,} {table}" for table, count in rows.items() if count))
        for problem in report.problems:
            click.echo(f"not read: {problem}", err=True)


@cli.command()
@as_json
def compact(as_json: bool) -> None:
    """Erase for good what was deleted: its journals too. There is no undo after this."""
    home = lab_home()
    with Store.open(home) as store:
        store.ingest()
        count = compact_store(store.connection, home, erase)
    print_json({"erased": count}) if as_json else click.echo(f"{count} deleted sweeps and runs erased")


@cli.command()
@click.argument("sweep_id", metavar="SWEEP")
@click.option("--format", "form", type=click.Choice(["csv", "parquet", "html", "bundle"]), required=True,
              help="html: every chart of it, in one file; bundle: the whole sweep with its journals, for "
                   "`lab.py import` in another lab.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--table", type=click.Choice(TABLES), default="runs", show_default=True,
              help="runs: one row per run with parameters, metrics and phase medians; the others are raw rows.")
@as_json
def export(sweep_id: str, form: Any, out: Path, table: str, as_json: bool) -> None:
    """Write the measurements of SWEEP to a file; as HTML: every chart that pages draw of it, interactive, offline."""
    folder = find_sweep(lab_home(), sweep_id)
    out = out.resolve()  # a link's target is written, not the link replaced
    if (out.exists() and not out.is_file()) or not out.parent.is_dir():
        raise InputError(f"--out {out}: give the name of a file in a folder that exists")
    if form == "bundle":
        close_interrupted(lab_home())
        manifest = save_bundle(lab_home(), folder, out)
        runs = manifest.number_of_runs
        answer = {"sweep_id": folder.sweep_id, "runs": runs, "status": manifest.status, "out": str(out)}
        print_json(answer) if as_json else click.echo(
            f"sweep {folder.sweep_id} ({manifest.status}): {runs:,} {'run' if runs == 1 else 'runs'} in {out}")
        return
    with open_for_reading(folder.sweep_id) as store:
        if form == "html":
            from exporting import export_html  # Streamlit takes a second to load

            charts = export_html(store, folder.sweep_id, read_state(folder).specs[0]["experiment"], out)
            print_json({"charts": charts, "out": str(out)}) if as_json else click.echo(f"{charts} charts in {out}")
            return
        rows = export_sweep(store.connection, folder.sweep_id, table, form, out)
    print_json({"rows": rows, "out": str(out)}) if as_json else click.echo(f"{rows:,} rows in {out}")


@cli.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--experiment", metavar="NAME", help="For CSV: whose parameters the columns are named after.")
@click.option("--name", default="", metavar="TEXT", help="The name of the sweep it becomes.")
@as_json
def import_command(file: Path, experiment: str | None, name: str, as_json: bool) -> None:
    """Import measurements made elsewhere: FILE is a bundle of another lab, or CSV with one row per run."""
    if file.is_file() and is_bundle(file):
        if experiment or name:
            raise InputError(f"{file}: is a bundle and has its experiment and name; leave out --experiment and --name")
        with file.open("rb") as opened:
            done = import_bundle(lab_home(), opened, file.name, try_reading)
        take_into_store(lab_home())
        print_json({"sweep_id": done.sweep_id, "runs": done.runs, "new": done.new, "machines": done.machines}) \
            if as_json else click.echo(done.sentence)
        return
    if experiment is None:
        raise InputError(f"{file}: is no bundle; to import CSV say with --experiment whose parameters its columns are")
    sweep_id, count = import_file(lab_home(), file, experiment, name)
    take_into_store(lab_home())
    if as_json:
        print_json({"sweep_id": sweep_id, "runs": count})
    else:
        click.echo(f"sweep {sweep_id}: {count:,} {'run' if count == 1 else 'runs'} imported")


@cli.command()
@click.argument("sweep_id", metavar="SWEEP")
@click.option("--top", type=click.IntRange(1, 10_000), default=TOP, show_default=True,
              help="Count for how many models a cell is among so many fastest.")
@click.option("--per-image/--whole", default=None,
              help="Compare the time per image, or of whole runs. Without either, as on the page: per image where "
                   "cells measured unequal numbers of images.")
@as_json
def regret(sweep_id: str, top: int, per_image: bool | None, as_json: bool) -> None:
    """Which batch size and how many workers suit all models of SWEEP: mean, worst-case and total-time objective."""
    folder = find_sweep(lab_home(), sweep_id)
    with open_for_reading(folder.sweep_id) as store:
        runs = grid_runs(store.connection, [folder.sweep_id])
        plans = unfinished_plans(store.connection, [folder.sweep_id])
    experiment = read_state(folder).specs[0]["experiment"]
    defaults = {experiment: default_values(experiment)}
    report = report_regret(split_grids([*runs, *never_begun(runs, plans, defaults)], defaults), plans, top, per_image)
    if not report["cells"]:
        raise InputError(f"sweep {folder.sweep_id}: {experiment} has no batch_size and workers, or no run has begun; "
                         "name a sweep that varies them")
    print_json({"sweep_id": folder.sweep_id, **report}) if as_json else print_regret(report)


@cli.command(name="queue")
@click.argument("action", type=click.Choice(["list", "pause", "continue", "next"]), default="list")
@click.argument("sweep_id", metavar="[SWEEP]", required=False)
@as_json
def queue_command(action: str, sweep_id: str | None, as_json: bool) -> None:
    """The machine's queue: list it; pause or continue it or one SWEEP; put SWEEP next."""
    home = lab_home()
    close_interrupted(home)
    target = find_sweep(home, sweep_id).sweep_id if sweep_id else None
    if action == "next":
        if target is None:
            raise InputError("queue next: name the sweep that shall be next")
        queue.move(home, target, 0)
    elif action in ("pause", "continue"):
        queue.pause(home, target, action == "pause")
    line = queue.read_queue(home)
    entries = [{"sweep_id": e.sweep_id, "state": e.state, "paused": e.paused} for e in line.entries]
    if as_json:
        print_json({"paused": line.paused, "queue": entries})
        return
    click.echo("the queue is " + ("paused" if line.paused else "empty" if not entries else "open"))
    for entry in entries:
        click.echo(f"{entry['sweep_id']}  {entry['state']}{', paused' if entry['paused'] else ''}")


@cli.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Where to listen; the next free one if it is taken.")
def app(port: int | None) -> None:
    """Open the app in the browser, on this machine only."""
    wanted = os.environ.get("PORT") or "8501"
    if not port and not (wanted.isdecimal() and 0 < int(wanted) < 65536):
        raise InputError(f"PORT={wanted}: must be 1 to 65535")
    chosen = free_port(port or int(wanted))
    check_free(lab_home())  # says who has the store, before a server is started for nothing
    click.echo(f"PhaseLab is at http://127.0.0.1:{chosen}")
    from serving import serve

    serve(chosen)


def free_port(wanted: int) -> int:
    """The wanted port, or the next one that nobody listens on."""
    for port in range(wanted, min(wanted + 100, 65536)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise InputError(f"PORT={wanted}: this port and the next hundred are taken; choose another")


@cli.command()
@click.argument("what", type=click.Choice(["imagenette"]))
@click.option("--size", type=click.Choice(["full", "320px", "160px"]), default="full", show_default=True)
def fetch(what: str, size: str) -> None:
    """Download a data set. Data is never downloaded without this command."""
    fetch_imagenette(lab_home().cache, size)
    click.echo(f"{what} is there")


# -- shared by the commands --------------------------------------------------------------------------------------------


def ask_if_large(spec: SweepSpec, yes: bool, as_json: bool) -> None:
    """A slip in a grid can mean a million runs: nothing starts before a person has seen the number."""
    if spec.number_of_runs <= MANY_RUNS or yes:
        return
    text = f"this sweep has {spec.number_of_runs:,} runs"
    if as_json or not sys.stdin.isatty():
        raise InputError(f"{text}; start it with --yes if that is meant, or make the grid smaller")
    if not click.confirm(f"{text}; start it?", default=False, err=True):
        raise InputError(f"{text}; not started")


def tell_outcome(home: Home, sweep_id: str, wait: bool, as_json: bool) -> None:
    folder = home.sweep(sweep_id)
    if wait:
        follow_sweep(folder, quiet=as_json)
        wait_until_ended(folder, 300)
        close_interrupted(home)
        take_into_store(home)
    state = read_state(folder)
    outcome = {"sweep_id": sweep_id, "status": state.status, "runs": state.counts}
    if state.reason:
        outcome["reason"] = state.reason
    if as_json:
        print_json(outcome)
    else:
        runs = ", ".join(f"{count} {status}" for status, count in state.counts.items()) or "no runs yet"
        click.echo(f"sweep {sweep_id}: {state.status}" + (f" ({state.reason})" if state.reason else "") + f"; {runs}")
        if wait:
            with open_for_reading(sweep_id) as store:
                print_runs(list_runs(store.connection, sweep_id))
        elif state.open:
            click.echo(f"follow it with `python lab.py runs --sweep {sweep_id}`, end it with "
                       f"`python lab.py cancel {sweep_id}`")
    if wait and (state.status != "finished" or not state.counts.get("ok")):
        sys.exit(1)


def take_into_store(home: Home) -> None:
    try:
        with Store.open(home) as store:
            store.ingest()
            if store.notice:
                click.echo(store.notice, err=True)
    except StoreHeld:
        return  # the app has it and reads the journals itself


def open_for_reading(sweep_id: str | None = None) -> Store:
    """The store brought up to date; or, while another process has it, a temporary one from the journals."""
    home = lab_home()
    if not home.root.is_dir():
        if home.root.exists():
            raise InputError(f"PHASELAB_HOME={home.root}: is a file; name a folder")
        return Store.in_memory(home, [])
    close_interrupted(home)
    try:
        store = Store.open(home)
        problems = store.ingest().problems
    except StoreHeld:
        store, problems = Store.in_memory(home, [sweep_id] if sweep_id else home.sweep_ids()), []
    for text in [store.notice, *problems]:
        if text:
            click.echo(text, err=True)
    return store


def print_json(content: Any) -> None:
    click.echo(json.dumps(_plain(content), ensure_ascii=False, indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    """JSON has no moments and no infinities: the first become text, the second null."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main() -> None:
    try:
        cli(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_page:
        click.echo(help_page.format_message())
        sys.exit(2)
    except click.ClickException as error:
        give_up(error.format_message())
    except PROBLEMS as error:
        give_up(str(error))
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; a sweep that was already started goes on", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)  # the reader of our output has gone, as `head` does
    except OSError as error:
        # A path that a person gave and the operating system refuses.
        give_up(f"{error.filename or 'a file'}: {error.strerror or error}; choose another path or change its rights")


def give_up(sentence: str) -> None:
    if "--json" in sys.argv:
        print_json({"error": sentence})
    else:
        click.echo(f"error: {sentence}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
