"""Connections of listeners and connectors: their settings, retries and state. Pure."""
