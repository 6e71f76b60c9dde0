"""Access to running routers over AMQP management: their reports, and changes to them."""
