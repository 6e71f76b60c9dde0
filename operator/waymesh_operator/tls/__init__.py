"""Certificates of a mesh: authority, leaf certificates, renewal, and rollover to the next authority. Pure."""
