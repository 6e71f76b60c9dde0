"""Server side of AMQP Management: processes requests and creates replies. Pure, without I/O."""
