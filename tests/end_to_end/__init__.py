"""One theme a file; tests/run imports them all."""
