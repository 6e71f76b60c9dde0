"""Tokens of clients (SASL OAUTHBEARER): profiles, keys of issuers, checks."""
