"""An AMQP container in a pod: accepts every link, but gives no credit and sends no messages."""

from __future__ import annotations

import signal
from typing import Any

from proton.handlers import MessagingHandler
from proton.reactor import Container

PORT = 5672


class Accepting(MessagingHandler):
    """Answers each attach with what was asked for."""

    def __init__(self) -> None:
        super().__init__(prefetch=0)

    def on_start(self, event: Any) -> None:
        event.container.listen(f"0.0.0.0:{PORT}")
        print("listening", flush=True)

    def on_link_opening(self, event: Any) -> None:
        event.link.source.copy(event.link.remote_source)
        event.link.target.copy(event.link.remote_target)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Container(Accepting(), container_id="container").run()
