"""`.status` of resources, from the desired state and from what the live routers report. Pure."""
