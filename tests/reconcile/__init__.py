"""Reconciling: plans and their execution, against models of routers."""
