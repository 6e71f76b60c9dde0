"""Measures how soon clients of different AMQP libraries come back after their connection has ended."""
