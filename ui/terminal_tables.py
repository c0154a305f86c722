"""Sweeps, runs and the doctor's findings as tables in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.quietness import Quietness, percent
from ui.units import amount, metric_amount, number, seconds, size

PARAMS_SHOWN = 6


def print_sweeps(sweeps: list[dict[str, Any]]) -> None:
    if not sweeps:
        print("no sweeps yet; start one with `python lab.py sweep presets/tour.yaml --wait`")
        return
    table = Table("sweep", "name", "experiment", "status", "runs", "launched (UTC)", box=None)
    for sweep in sweeps:
        runs = ", ".join(f"{count} {status}" for status, count in sweep["runs"].items())
        table.add_row(*map(_text, (sweep["sweep_id"], sweep["name"] or "–", sweep["experiment"],
                                   sweep["status"] + (", from a bundle" if sweep["from_bundle"] else ""), runs,
                                   f"{sweep['created_at']:%Y-%m-%d %H:%M}")))
    _print(table)


def print_runs(runs: list[dict[str, Any]]) -> None:
    """One line per run: what sets it apart, how it ended, where its time went."""
    if not runs:
        print("no runs yet")
        return
    varying = _varying(runs)
    phases = list(dict.fromkeys(phase for run in runs for phase in run["phases"]))
    table = Table("run", *varying, "status", "end to end", "first batch", "steady items/s",
                  *(f"{p} (median)" for p in phases), box=None)
    one_sweep = len({run["sweep_id"] for run in runs}) == 1
    for run in sorted(runs, key=lambda run: [str(run["params"].get(name)).zfill(12) for name in varying]):
        metrics = run["metrics"]
        noise = {True: " (noisy)", False: ""}.get(run["noisy"], " (noise unknown)" if run["status"] == "ok" else "")
        status = run["status"] + noise
        speed = metrics.get("steady_items_per_s")
        run_id = run["run_id"].removeprefix(run["sweep_id"] + "-") if one_sweep else run["run_id"]
        table.add_row(*map(_text, (
            run_id, *(run["params"].get(name) for name in varying), status,
            seconds(metrics.get("end_to_end_s")), seconds(metrics.get("first_batch_s")),
            number(speed) if speed is not None else "too short" if run["status"] == "ok" else "–",
            *(seconds(run["phases"].get(phase, {}).get("median_s")) for phase in phases))))
    _print(table)
    for run in runs:
        differs = [f"{name}={asked} was asked, {run['effective'][name]} took effect" for name, asked in
                   run["params"].items() if asked not in (None, "auto") and name in run["effective"]
                   and name in ("batches", "images", "workers") and run["effective"][name] != asked]
        for text in [run["reason"], run["noise_reason"], *differs]:
            if text:
                _print(_text(f"{run['run_id']}: {text}"))


def print_run(run: dict[str, Any]) -> None:
    title = f"run {run['run_id']}: {run['status']}" + (f", {run['reason']}" if run["reason"] else "")
    _print(_text(title))
    _print(_text(f"experiment {run['experiment']}, repeat {run['repeat']}, attempt {run['attempt']}, "
                 f"started {run['started_at']:%Y-%m-%d %H:%M:%S} UTC, took {seconds(run['wall_s'])}"))
    if run["noisy"]:
        _print(_text(f"noisy: {run['noise_reason']}"))
    table = Table("parameter", "asked", "in effect", box=None)
    for name in [*run["params"], *(name for name in run["effective"] if name not in run["params"])]:
        asked, effective = run["params"].get(name), run["effective"].get(name)
        differs = "" if effective in (None, asked) else effective
        table.add_row(*map(_text, (name, "–" if asked is None else asked, differs)))
    _print(table)
    table = Table("stage", "start", "took", box=None)
    for stage in run["stages"]:
        table.add_row(*map(_text, (stage["stage"], seconds(stage["start_s"]), seconds(stage["seconds"]))))
    _print(table)
    table = Table("phase", "clock", "batches", "median", "steady median", "first", "total", box=None)
    for phase, row in run["phases"].items():
        table.add_row(*map(_text, (phase, row["clock"], row["count"], seconds(row["median_s"]),
                                   seconds(row["steady_median_s"]), seconds(row["first_s"]), seconds(row["total_s"]))))
    _print(table)
    table = Table("metric", "value", box=None)
    for name, value in run["metrics"].items():
        table.add_row(*map(_text, (name, amount(value, run["units"].get(name)))))
    _print(table)
    table = Table("device", "telemetry", "mean", "lowest", "highest", "samples", box=None)
    for row in run["telemetry"]:
        table.add_row(*map(_text, (row["device"], row["metric"], *(metric_amount(row["metric"], row[k]) for k in
                                                                   ("mean", "minimum", "maximum")), row["count"])))
    _print(table)
    if run["environment"]:
        _print(_text("environment " + ", ".join(f"{k}={v}" for k, v in run["environment"].items()
                                                if isinstance(v, str | int | float))))
    if run["log"]:
        _print(_text("log:\n" + run["log"].rstrip()[-2000:]))


def print_doctor(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if name == "missing":
            continue
        if name.endswith("_bytes") and value is not None:
            value = size(value)
        if isinstance(value, dict):
            value = ", ".join(f"{key} {inner}" for key, inner in value.items())
        if isinstance(value, list):
            value = "; ".join(map(str, value)) or "none"
        _print(_text(f"{name.removesuffix('_bytes').replace('_', ' ')}: {'none' if value is None else value}"))
    for sentence in report["missing"]:
        _print(_text(f"missing: {sentence}"))


def print_prediction(found: dict[str, Any]) -> None:
    _print(_text(f"about {size(found['peak_bytes'])} at the peak of a training step (predicted in "
                 f"{seconds(found['seconds'])}, nothing of it allocated)"))
    table = Table("category", "at the peak", box=None)
    for category, held in found["by_category"].items():
        table.add_row(*map(_text, (category.replace("_", " "), size(held))))
    _print(table)


def print_noise(found: Quietness, others_cpu_cores: float | None, steal_share: float | None) -> None:
    _print(_text(f"{found.verdict}: {found.meaning}"))
    for reason in found.reasons:
        _print(_text(f"because {reason}"))
    table = Table("load", "piece, median", "5 % to 95 %", "slowest", "interrupted", "block to block", box=None)
    for part in found.parts:
        table.add_row(*map(_text, (part.name, seconds(part.median_s), f"-{percent(part.low)} to +{percent(part.high)}",
                                   f"{part.worst:.1f} x median", f"{part.slow_pieces} of {part.pieces}",
                                   percent(part.block_spread))))
    _print(table)
    others = "not available" if others_cpu_cores is None else f"{others_cpu_cores:.2f} cores"
    stolen = "not available" if steal_share is None else percent(steal_share)
    _print(_text(f"other processes: {others}; stolen by other machines: {stolen}"))
    _print(_text("A check of seconds cannot see what changes over minutes; memory, disk and GPU are not loaded."))


def print_regret(report: dict[str, Any]) -> None:
    for sentence in report["warnings"]:
        _print(_text(sentence))
    settings = list(dict.fromkeys(name for cell in report["cells"] for name in cell.get("setting", {})))
    mixed = report["per_image"] is None
    total = "total per image" if report["per_image"] else "total"
    table = Table(*settings, "batch size", "workers", "mean regret", "worst regret", total, f"top {report['top']}",
                  "against the best", "not measured for", box=None)
    for cell in report["cells"]:
        table.add_row(*map(_text, (
            *(cell["setting"].get(name) for name in settings), cell["batch_size"], cell["workers"],
            _percent(cell["mean_regret"]), _percent(cell["worst_regret"]),
            seconds(cell["total_s"]) + (" per image" if mixed and cell["per_image"] else ""), cell["top_n"],
            cell["against_best"] or "–", ", ".join(missing["model"] for missing in report["missing"]
                      if all(missing.get(name) == cell.get(name) for name in ("batch_size", "workers", "setting"))))))
    _print(table)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _varying(runs: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for run in runs for name in run["params"])
    varying = [name for name in names if len({str(run["params"].get(name)) for run in runs}) > 1]
    return varying[:PARAMS_SHOWN]


def _text(value: Any) -> Text:
    """Names and notes are shown as they are: never as markup."""
    return Text(str(value))


def _print(content: Any) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(content, soft_wrap=not isinstance(content, Table))
