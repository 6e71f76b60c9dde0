"""Log lines about entities, connections, links and the mesh. Pure."""
