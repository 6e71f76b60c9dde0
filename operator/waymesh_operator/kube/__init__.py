"""The Kubernetes API behind an interface of five verbs. `handlers` has the watches."""
