"""Warnings before certificates expire. Pure."""
