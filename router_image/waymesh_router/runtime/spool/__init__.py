"""The folder to which a router writes telemetry."""
