"""External containers (brokers) and the links that the router attaches to them."""
