"""Hourly aggregates of the records: how they are defined, written and read."""
