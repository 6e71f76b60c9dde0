"""The subcommands of the program, apart from running a router."""
