"""Telemetry: what a router exports about itself. Pure; the files are made in the runtime."""
