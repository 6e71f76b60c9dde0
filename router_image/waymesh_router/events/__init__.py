"""Events in the log: the machine-readable part of a line, and the limit of lines about one peer. Pure."""
