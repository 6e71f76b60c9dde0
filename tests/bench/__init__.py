"""Benchmarks: a load generator in C, the relay floor, scenarios, comparison with targets and a baseline."""
