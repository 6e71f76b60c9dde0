"""`waymesh query`: Spark SQL on the tables of a store, read-only."""
