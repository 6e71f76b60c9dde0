"""Connections of the network: listeners, connectors, sockets, and the I/O of an AMQP connection."""
