"""Link routes: attaches and transfers are forwarded to a container."""
