"""What `waymesh stat` and `waymesh manage` do on a router. The operator package declares their options."""
