"""Command-line tools that look at routers and change them."""
