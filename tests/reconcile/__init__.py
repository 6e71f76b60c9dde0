"""Reconciling: the plan, and what carries it out, against models of routers."""
