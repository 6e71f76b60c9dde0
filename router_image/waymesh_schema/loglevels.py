"""Log modules, log levels, and the level expressions of the `enable` attribute of `log`."""

from __future__ import annotations

LOG_MODULES = (
    "ROUTER", "ROUTER_CORE", "ROUTER_HELLO", "ROUTER_LS", "ROUTER_MA", "MESSAGE", "SERVER", "AGENT", "AUTHSERVICE",
    "CONTAINER", "ERROR", "POLICY", "HTTP", "CONN_MGR", "PROTOCOL", "DEFAULT",
)  # fmt: skip
LOG_LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical")


def parse_levels(expression: str) -> frozenset[str] | None:
    """The levels that an expression enables; None when it is `default` (what the DEFAULT module enables).

    An expression is a comma-separated list of levels, each with an optional `+` for "and above"; `none`; or `default`.
    Raises ValueError with the reason when it is none of these.
    """
    terms = [term.strip().lower() for term in expression.split(",")]
    if terms == ["default"]:
        return None
    if terms == ["none"]:
        return frozenset()
    enabled: set[str] = set()
    for term in terms:
        level = term.removesuffix("+")
        if level not in LOG_LEVELS:
            raise ValueError(f"{term!r} is not a log level; use {', '.join(LOG_LEVELS)}, with + for a level and above")
        first = LOG_LEVELS.index(level)
        enabled.update(LOG_LEVELS[first:] if term.endswith("+") else (level,))
    return frozenset(enabled)
