"""SASL servers outside the router: users, and services to which logins are relayed."""
