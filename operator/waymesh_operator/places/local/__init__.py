"""Local mode: runs the routers of manifests as processes on this machine's loopback."""
