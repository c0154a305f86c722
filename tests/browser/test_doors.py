"""Who gets in, where the app listens, and what it never loads."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from browser.conftest import Visit
from browser.driven_app import App, free_port, wait_for
from browser.windows import HomePage, settled

from engine.sweep_state import read_process


def handshake(app: App, host: str, origin: str | None) -> int:
    """The status that a WebSocket handshake is answered with, by raw socket: no client library sets headers for us."""
    lines = ["GET /_stcore/stream HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
             "Sec-WebSocket-Protocol: streamlit", *([f"Origin: {origin}"] if origin else [])]
    with socket.create_connection(("127.0.0.1", app.port), timeout=60) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = connection.recv(4096).decode(errors="replace")
    return int(answer.split()[1])


def test_a_page_of_its_own_may_connect(app: App) -> None:
    assert handshake(app, f"127.0.0.1:{app.port}", app.url) == 101
    assert handshake(app, f"localhost:{app.port}", f"http://localhost:{app.port}") == 101


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:8501", "http://127.0.0.1.evil.example",
                                    "null", "http://localhost.evil.example"])
def test_a_page_of_another_site_may_not(app: App, origin: str) -> None:
    assert handshake(app, f"127.0.0.1:{app.port}", origin) == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8501"])
def test_a_foreign_name_for_this_machine_may_not(app: App, host: str) -> None:
    """A name that somebody points at 127.0.0.1: then Host and Origin agree with each other."""
    assert handshake(app, host, f"http://{host}") in (400, 403)


def test_it_listens_on_this_machine_only(app: App) -> None:
    listening = [c.laddr.ip for c in psutil.Process(app.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


@pytest.mark.parametrize("asked_by", ["--port", "PORT"])
def test_a_taken_port_means_the_next_free_one(start_app: Callable[..., App], tmp_path: Path, image_cache: Path,
                                              asked_by: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        app = App(tmp_path, image_cache, **({"PORT": str(port)} if asked_by == "PORT" else {}))
        app.port = port if asked_by == "--port" else None
        try:
            app.start()
            assert port < app.port < port + 100
            lines = app.log.read_text().splitlines()
            assert lines[0] == f"PhaseLab is at http://127.0.0.1:{app.port}"
        finally:
            app.close()


@pytest.mark.parametrize("visited", [True, False])
def test_a_second_app_on_the_same_lab_says_who_has_it(start_app: Callable[..., App], visit: Visit,
                                                      visited: bool) -> None:
    """Whether or not somebody has looked at the first one yet."""
    app = start_app()
    holder = app.lab.home.store.with_suffix(".holder")
    if visited:
        HomePage(visit()).open(app.url)
    # It opens the store beside answering, and gives way to whatever else keeps the machine busy.
    wait_for(lambda: str(app.pid) in (holder.read_text() if holder.exists() else ""), "the first app has the store")
    second = app.lab.start("app", "--port", str(free_port()))
    try:
        out, err = second.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        pytest.fail("the second app started as if it were the only one")
    finally:
        second.kill()
        second.communicate()
        app.close()
    assert second.returncode == 2, out + err
    assert str(app.pid) in err and len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err


def has_torch(pid: int) -> bool:
    return bool(re.search(r"libtorch", Path(f"/proc/{pid}/maps").read_text()))


def test_the_app_never_loads_torch(app: App, visit: Visit) -> None:
    """Not on any page, and not while it follows a sweep whose runs do."""
    file = app.lab.sweep_file(experiment="misbehave", grid={"seed": [1]}, fixed={"batches": 2000, "batch_s": 0.2})
    folder = app.lab.home.sweep(app.lab.json("sweep", file)["sweep_id"])
    sweep = psutil.Process(read_process(folder)["pid"])
    wait_for(lambda: any(has_torch(child.pid) for child in sweep.children(recursive=True)), "a run has torch")
    page = visit()
    for title in ("Home", "Launch", "Runs", "Machine"):
        page.goto(f"{app.url}/{'' if title == 'Home' else title}")
        settled(page, title)
    page.goto(f"{app.url}/Live?sweep={folder.sweep_id}")
    page.get_by_text("runs done").wait_for()
    assert not has_torch(app.pid)
    for child in psutil.Process(app.pid).children(recursive=True):
        assert child.pid == sweep.pid or not has_torch(child.pid)
    app.lab.call("cancel", folder.sweep_id)
