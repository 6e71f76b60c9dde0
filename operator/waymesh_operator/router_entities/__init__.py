"""What resources become on a router: names, builders and comparison of router entities. Pure."""
