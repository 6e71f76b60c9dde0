"""Attach and detach of links with clients and other routers."""
