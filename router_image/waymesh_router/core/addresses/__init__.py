"""Addresses: the keys by which they are known, and the patterns that configure them."""
