"""Clients of the router: logins, rights, what they may open and attach, moves to other routers. Pure."""
