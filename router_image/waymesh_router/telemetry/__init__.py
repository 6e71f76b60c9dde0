"""Telemetry records of a router. Pure; the runtime writes the files."""
