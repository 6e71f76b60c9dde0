"""A mesh in a Kubernetes cluster: objects, plan, apply, status and worker. Local mode uses the same plan and status."""
