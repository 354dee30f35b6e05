"""The base of the end-to-end tests: a scene for each test, stores, nodes, links between them, and both MPIs."""
