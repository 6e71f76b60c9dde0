"""Management client and command-line tools, on python-qpid-proton."""
