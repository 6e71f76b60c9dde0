"""Many faults at once on a mesh of real processes, with every delivery accounted for. `python -m tests.chaos --help`"""
