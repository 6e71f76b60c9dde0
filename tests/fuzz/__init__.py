"""Fuzzing of the wire engine behind a router's core, and of the configuration reader. `python -m tests.fuzz --help`"""
