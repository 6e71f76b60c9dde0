"""`waymesh demo`: shows a mesh at work, step by step."""
