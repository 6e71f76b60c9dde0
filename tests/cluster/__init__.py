"""A real Kubernetes for tests, without Docker: built from Go modules, run in namespaces of its own."""
