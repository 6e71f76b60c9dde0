"""python-qpid-proton's Container with default settings: a sender and a receiver on `orders`."""

import sys

from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Client(MessagingHandler):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self.url)
        event.container.create_receiver(connection, "orders")
        event.container.create_sender(connection, "orders")


Container(Client(sys.argv[1])).run()
