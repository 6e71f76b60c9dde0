"""`waymesh query`: Spark SQL on the tables of a store, for reading only."""
