"""The path of a message: its address, its consumer, and what happens while no consumer is ready."""
