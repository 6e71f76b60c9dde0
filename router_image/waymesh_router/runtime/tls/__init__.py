"""TLS of connections: contexts, sockets, checks of the peer's certificate, and identities."""
