"""Where meshes run: in Kubernetes, or as processes on this machine."""
