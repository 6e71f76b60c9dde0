"""Output of log lines: files and their rotation, writing off the loop, and frames as text."""
