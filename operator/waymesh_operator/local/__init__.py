"""Local mode: the routers of manifests as processes on this machine's loopback."""
