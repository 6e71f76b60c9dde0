"""Resources (Router, Address, Broker, AutoLink, LinkRoute): their specifications, manifests and validation. Pure."""
