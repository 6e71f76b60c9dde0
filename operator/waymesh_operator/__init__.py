"""The operator: resources → desired state → plan → actions, in a cluster or as local processes."""
