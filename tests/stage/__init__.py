"""What the end-to-end tests stand on: a scene for each test, stores, nodes, links between them, and both MPIs."""
