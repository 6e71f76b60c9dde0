"""Shared by tests: router processes, meshes, proton clients, certificates, ports, waiting."""
