"""Exchanges: messages are copied to the next hops of bindings that match their subject."""
