"""HTTP at listeners with `http: yes`: pages, static files, and WebSockets that carry AMQP."""
