"""Meshes in a Kubernetes cluster: their objects, what is observed and applied there, and the operator's process."""
