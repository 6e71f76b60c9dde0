"""The one typed table of router entities, the checks made with it, and the configuration file reader."""
