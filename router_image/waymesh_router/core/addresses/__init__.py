"""Addresses: their keys, and the configured prefixes and patterns."""
