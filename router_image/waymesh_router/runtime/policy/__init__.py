"""Policy that comes from outside the router: files of vhosts, and names of hosts."""
