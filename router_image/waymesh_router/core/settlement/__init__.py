"""Settlement end to end: each unsettled delivery that came in gets exactly one outcome."""
