"""The command line of the job."""
