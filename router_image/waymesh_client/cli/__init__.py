"""The commands `waymesh stat` and `waymesh manage`. The operator package declares their options."""
