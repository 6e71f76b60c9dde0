"""All input and output of the router: event loop, sockets, TLS, log, command line."""
