"""The Kubernetes API behind an interface of five verbs. Watches are in `handlers`."""
