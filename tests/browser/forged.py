"""A client that speaks the app's own protocol and clicks what it likes: buttons that are disabled or not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect


class Forger:
    """One session of one page, without a browser."""

    def __init__(self, connection: ClientConnection, page: str, query: str) -> None:
        self._connection, self._page, self._query = connection, page, query
        self.buttons = self._run()

    def click(self, button_id: str) -> None:
        """Say that this button was clicked, and wait until the page's script has dealt with it."""
        self._run(button_id)

    def _run(self, clicked: str | None = None) -> dict[str, str]:
        """One run of the page's script; returns the ids of its buttons by label."""
        ask = BackMsg()
        ask.rerun_script.query_string, ask.rerun_script.page_name = self._query, self._page
        if clicked:
            state = ask.rerun_script.widget_states.widgets.add()
            state.id, state.trigger_value = clicked, True
        self._connection.send(ask.SerializeToString())
        buttons: dict[str, str] = {}
        while True:
            said = self._connection.recv(timeout=120)
            assert isinstance(said, bytes)
            message = ForwardMsg()
            message.ParseFromString(said)
            if message.delta.new_element.HasField("button"):
                buttons[message.delta.new_element.button.label] = message.delta.new_element.button.id
            if message.WhichOneof("type") == "script_finished":
                return buttons


@contextmanager
def forge(url: str, page: str, query: str = "") -> Iterator[Forger]:
    address = url.replace("http://", "ws://") + "/_stcore/stream"
    # Widget states of a large page are answered in large messages.
    with connect(address, origin=url, subprotocols=["streamlit"], max_size=None) as connection:  # type: ignore[list-item,arg-type]
        yield Forger(connection, page, query)
