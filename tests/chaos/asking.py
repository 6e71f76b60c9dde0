"""Links of requesters and responders: requests, and replies at a dynamic address or one of the requester's own."""

from __future__ import annotations

from typing import Any

from tests.chaos.client import Client, Consumer, Kinds, Producer
from tests.chaos.events import ACCEPTED, RELEASED
from tests.chaos.workload import Asks, Collects, Receives, Replies, Sends, Serves


class Inbox(Consumer):
    """Receives replies. Each time when it attaches without an address of its own, the router gives it another one."""

    def __init__(self, client: Client, plan: Receives, number: int) -> None:
        super().__init__(client, plan, number)
        self._own = plan.address

    def attach(self) -> None:
        """A new link."""
        self.address = self._own
        super().attach()

    def on_message(self, words: dict[str, Any], length: int, delivery: Any) -> None:
        """A reply with the identifier of another request counts as damaged."""
        fits = words["correlation"] == words["answers"]
        super().on_message(words, length if fits else -1, delivery)

    def note(self, words: dict[str, Any]) -> None:
        """The way of a request ends where its reply comes."""
        self.group.through.note(self.client.name, words["service"], self.client.name, words["asked"])


class Requester(Producer):
    """Sends requests while the link before it in the plan waits for replies."""

    def __init__(self, client: Client, plan: Sends, number: int) -> None:
        super().__init__(client, plan, number)
        self._inbox_number = number - 1

    @property
    def _inbox(self) -> Inbox:
        inbox = self.client.tasks[self._inbox_number]
        assert isinstance(inbox, Inbox)
        return inbox

    def tick(self, now: float) -> None:
        """Send requests that are due."""
        if self._inbox.attached:
            super().tick(now)

    def _send(self, now: float, more: dict[str, str | float] | None = None) -> None:
        super()._send(now, {"reply_to": self._inbox.address, **(more or {})})


class Replier(Producer):
    """Sends replies, each to its address."""

    def tick(self, now: float) -> None:
        """It sends when a request came."""

    def on_flow(self) -> None:
        """It waits for no credit: a request that comes without is released."""

    def reply(self, request: dict[str, Any], service: str) -> bool:
        """Whether there was credit to do it."""
        if not self.attached or self.link.credit <= 0:
            return False
        more = {"to": request["reply_to"], "answers": request["message"], "service": service, "asked": request["at"]}
        self._send(self.around.now(), more)
        return True


class Responder(Consumer):
    """Replies to what it accepts."""

    def __init__(self, client: Client, plan: Receives, number: int) -> None:
        super().__init__(client, plan, number)
        self._requests: dict[str, dict[str, Any]] = {}
        """Those without an answer."""

    def forget(self) -> None:
        super().forget()
        self._requests.clear()

    def on_message(self, words: dict[str, Any], length: int, delivery: Any) -> None:
        """A request."""
        self._requests[words["message"]] = words
        super().on_message(words, length, delivery)

    def note(self, words: dict[str, Any]) -> None:
        """It gets through when its reply comes."""

    def decide(self, message: str, state: str) -> str:
        """Reply first, then accept."""
        request = self._requests.pop(message, None)
        if state != ACCEPTED or request is None:
            return state
        replier = next(task for task in self.client.tasks if isinstance(task, Replier))
        return ACCEPTED if replier.reply(request, self.address) else RELEASED


KINDS: Kinds = {Collects: Inbox, Asks: Requester, Replies: Replier, Serves: Responder}
