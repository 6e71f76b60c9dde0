"""Certificates of a mesh: its own authority, leaves, renewal, and the change from one authority to the next. Pure."""
