"""The plan of a mesh: desired and observed state, actions, and statuses. Shared by all places; pure."""
