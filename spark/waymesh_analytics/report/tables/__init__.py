"""The tables of the report, each computed from rollups."""
