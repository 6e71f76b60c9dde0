"""The reports: each is a table made from rollups."""
