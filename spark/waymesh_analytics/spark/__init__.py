"""How the job uses Spark: session, Java options, errors, queries in parallel."""
