"""What `tests/soak` is made of: actors on one store, faults, and a checker that knows every acknowledgement."""
