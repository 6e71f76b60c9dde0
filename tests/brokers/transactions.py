"""Local transactions of a client. Spec: part 4 (transactions)."""

from __future__ import annotations

import queue
from typing import Any

import proton
from proton.handlers import TransactionHandler
from proton.reactor import Transaction

from tests.kit.clients import Client, Received, Sender
from tests.kit.outcomes import DEADLINE_S, Sent


class Transactions(TransactionHandler):
    """The transactions of a connection, one after the other; the link to the coordinator has the same name in each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: queue.Queue[str] = queue.Queue()
        self._now: Transaction | None = None

    def declare(self) -> str:
        """Begin one: "declared" or "declare failed"."""
        self._now = self._client.call(
            lambda: self._client._container.declare_transaction(self._client.connection, handler=self)
        )
        return self._wait()

    def send(self, sender: Sender, message: proton.Message) -> Sent:
        """Send within it."""
        sender.wait_credit()

        def send() -> Sent:
            sent = Sent(False)
            self._client._handler.sent[self._current.send(sender.link, message)] = sent
            return sent

        return self._client.call(send)

    def accept(self, received: Received) -> None:
        """Accept within it."""
        self._client.call(lambda: self._current.accept(received.delivery))

    def commit(self) -> str:
        """End it: "committed" or "commit failed"."""
        self._client.call(self._current.commit)
        return self._wait()

    def abort(self) -> str:
        """End it without effect: "aborted"."""
        self._client.call(self._current.abort)
        return self._wait()

    @property
    def _current(self) -> Any:
        assert self._now is not None, "no transaction"
        return self._now

    def _wait(self) -> str:
        try:
            return self._told.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"no answer of the coordinator within {DEADLINE_S} s") from None

    # ---- told by proton
    def on_transaction_declared(self, event: Any) -> None:
        self._told.put("declared")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._told.put("declare failed")

    def on_transaction_committed(self, event: Any) -> None:
        self._told.put("committed")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._told.put("commit failed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._told.put("aborted")
