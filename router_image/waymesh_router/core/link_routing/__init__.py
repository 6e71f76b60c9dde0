"""Link routes: attaches and transfers that are passed on to a container."""
