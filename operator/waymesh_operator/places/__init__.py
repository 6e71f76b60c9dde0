"""Where meshes run: in Kubernetes, or as processes on this machine; and their reconciler, which is the same."""
