"""Management client, `waymesh stat` and `waymesh manage`, on python-qpid-proton."""
