"""The inter-router control plane: link state, paths, valid origins and mobile addresses; events in, effects out."""
