"""Limits of the memory that messages and clients take, and what frees it. Pure."""
