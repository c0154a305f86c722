"""Viewers of the Live page that only speak: Streamlit's own WebSocket protocol, as a browser does, without drawing.

A viewer asks for the page once, with its query string, and then for every fragment that told the browser to
(AutoRerun), each interval. A process of its own, so that its cost is known apart from the server's; it reads commands
from stdin, one JSON document per line, and answers each with one: {"watch": 5, "sweep": ID} and {"stop": true}.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

LARGEST_MESSAGE_BYTES = 64 * 2**20
KEPT_RUNS = 2
"""Script runs for which a browser keeps large messages (global.maxCachedMessageAge); these are not sent again."""


class Viewer:
    """One browser tab."""

    def __init__(self, port: int, sweep_id: str) -> None:
        self._url, self._origin = f"ws://127.0.0.1:{port}/_stcore/stream", f"http://127.0.0.1:{port}"
        self._query, self._page_hash = urlencode({"sweep": sweep_id}), ""
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._asked_at: float | None = None
        self._known: list[set[str]] = [set()]
        self.reruns: list[tuple[float, float]] = []
        """Fragment runs: when the last message had come (seconds since 1970), and how long after the question."""
        self.received_bytes = 0
        self.problems: list[str] = []

    async def watch(self) -> None:
        # Same origin, so the server's check of Origin and Host passes; without a login no XSRF token is needed.
        async with connect(self._url, origin=self._origin, subprotocols=["streamlit"],  # type: ignore[arg-type, list-item]
                           max_size=LARGEST_MESSAGE_BYTES) as link:
            await self._ask(link)
            try:
                async for data in link:
                    assert isinstance(data, bytes)
                    self.received_bytes += len(data)
                    self._take(link, ForwardMsg.FromString(data))
            finally:
                self._cancel_timers()

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def _ask(self, link: ClientConnection, fragment_id: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, self._page_hash
        if not self._page_hash:
            state.page_name = "Live"
        if fragment_id:
            state.fragment_id, state.is_auto_rerun = fragment_id, True
            self._asked_at = time.time()
        state.cached_message_hashes.extend(set().union(*self._known))
        await link.send(message.SerializeToString())

    def _take(self, link: ClientConnection, message: ForwardMsg) -> None:
        if message.metadata.cacheable:
            self._known[-1].add(message.hash)
        match message.WhichOneof("type"):
            case "new_session":
                self._page_hash = message.new_session.page_script_hash
                if not message.metadata.run.fragment_ids:  # the whole page: its fragments tell their pace anew
                    self._cancel_timers()
            case "navigation":  # which page was meant by its name
                self._page_hash = message.navigation.page_script_hash
            case "auto_rerun":
                found = message.auto_rerun
                if found.fragment_id not in self._timers:
                    self._timers[found.fragment_id] = asyncio.create_task(
                        self._ask_again_and_again(link, found.fragment_id, found.interval))
            case "stop_auto_rerun":
                for fragment_id in message.stop_auto_rerun.fragment_ids:
                    if timer := self._timers.pop(fragment_id, None):
                        timer.cancel()
            case "script_finished":
                self._known = [*self._known[-(KEPT_RUNS - 1):], set()]
                if message.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY and self._asked_at:
                    self.reruns.append((time.time(), time.time() - self._asked_at))
                    self._asked_at = None
            case "page_not_found":
                self.problems.append("the server has no page Live")
            case "delta" if message.delta.new_element.WhichOneof("type") == "exception":
                self.problems.append(message.delta.new_element.exception.message)

    async def _ask_again_and_again(self, link: ClientConnection, fragment_id: str, interval: float) -> None:
        """As setInterval does: it does not wait for the answer."""
        due = asyncio.get_running_loop().time()
        while True:
            due += interval
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await self._ask(link, fragment_id)


async def serve(port: int) -> None:
    viewers: list[Viewer] = []
    watching: list[asyncio.Task[None]] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if "watch" in command:
            viewers = [Viewer(port, command["sweep"]) for _ in range(command["watch"])]
            watching = [asyncio.create_task(viewer.watch()) for viewer in viewers]
            print(json.dumps({"watching": len(viewers)}), flush=True)
            continue
        broken = [repr(task.exception()) for task in watching if task.done() and task.exception()]
        for task in watching:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        print(json.dumps({"viewers": [{"reruns": viewer.reruns, "received_bytes": viewer.received_bytes}
                                      for viewer in viewers],
                          "problems": broken + [problem for viewer in viewers for problem in viewer.problems]}),
              flush=True)
        viewers, watching = [], []


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
