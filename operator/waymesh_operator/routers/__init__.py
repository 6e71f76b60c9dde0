"""Running routers over AMQP management: what they report, and changes to them."""
