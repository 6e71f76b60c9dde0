"""What tests share: router processes, meshes, proton clients, certificates, ports, waiting."""
