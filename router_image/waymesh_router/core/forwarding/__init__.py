"""The path of a message: its address, its consumer, and the queue if no consumer is ready."""
