"""What a target raises."""


class Finding(Exception):
    """An invariant does not hold any more."""
