"""Server side of AMQP Management: requests in, replies out. Pure: no input or output happens here."""
