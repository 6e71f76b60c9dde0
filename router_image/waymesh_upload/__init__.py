"""`waymesh-upload`: takes the telemetry files of routers beside it to an object store."""
