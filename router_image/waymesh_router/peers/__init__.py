"""What the router knows about its peers: addresses, certificates, SASL mechanisms, failover servers. Pure."""
