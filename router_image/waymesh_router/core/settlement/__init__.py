"""End-to-end settlement: each incoming unsettled delivery gets exactly one outcome."""
