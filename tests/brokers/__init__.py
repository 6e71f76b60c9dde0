"""Real brokers for tests, each a process on free ports of loopback.

```python
with BrokerJ(folder, durable=True) as broker:
    broker.create("queue", "orders")
    ...
    broker.kill()
    broker.start()
    assert broker.depth("orders") == 10
```
Their jars come from Maven Central, once, into the cache outside the checkout (`python -m tests.brokers` gets them).
Tests take the fixtures of `fixtures.py`: one broker of a kind for a whole session, with queues of the test's own names.
"""
