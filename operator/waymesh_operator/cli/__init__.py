"""The command `waymesh`."""
