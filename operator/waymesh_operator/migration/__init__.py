"""From configurations of Qpid Dispatch, and Interconnect resources of its operator, to manifests of Waymesh."""
