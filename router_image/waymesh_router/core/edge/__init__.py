"""Edge mode: the protocol between an interior router and its edge routers."""
