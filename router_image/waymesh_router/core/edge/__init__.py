"""Edge mode: what an interior router and its edge routers say to each other."""
