"""python-qpid-proton's BlockingConnection: the application connects anew when a call fails."""

import sys

from proton import ProtonException
from proton.utils import BlockingConnection

while True:
    try:
        connection = BlockingConnection(sys.argv[1])
        sender = connection.create_sender("orders")
        receiver = connection.create_receiver("orders")
        receiver.receive(timeout=3600)
    except (ProtonException, OSError) as error:
        print(f"{type(error).__name__}: {error}", flush=True)
