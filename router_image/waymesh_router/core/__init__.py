"""Forwarding state and the hot path: addresses, links, deliveries, remote routers."""
