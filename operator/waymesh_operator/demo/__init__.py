"""`waymesh demo`: a mesh at work, told as a story."""
