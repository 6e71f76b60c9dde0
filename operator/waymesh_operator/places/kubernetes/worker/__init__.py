"""One worker per mesh: it observes the mesh, plans, applies the plan and writes statuses."""
