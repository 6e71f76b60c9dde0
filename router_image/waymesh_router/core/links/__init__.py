"""Links of clients and of other routers, as they are attached and detached."""
