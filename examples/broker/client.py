"""Sends ten orders to the queue, then receives them: `kubectl exec -i mesh-0 -- python - < client.py`."""

from proton import Message
from proton.utils import BlockingConnection

connection = BlockingConnection("127.0.0.1:5672")
sender = connection.create_sender("orders.new")
for number in range(10):
    sender.send(Message(body=f"order {number}", durable=True), timeout=10)  # accepted by the broker
print("ten orders are in the queue")
receiver = connection.create_receiver("orders.new", credit=10)
for _ in range(10):
    print(receiver.receive(timeout=10).body)
    receiver.accept()  # now it leaves the queue
connection.close()
