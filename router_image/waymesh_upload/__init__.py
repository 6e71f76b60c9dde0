"""`waymesh-upload`: uploads the telemetry files of the routers next to it to an object store."""
