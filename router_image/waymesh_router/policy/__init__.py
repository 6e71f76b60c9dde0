"""Access policy as pure decisions: (settings, request) -> verdict. Dispatch book 3.6 "Policy"."""
