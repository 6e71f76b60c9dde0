"""Router entities of resources: names, builders and comparison. Pure."""
