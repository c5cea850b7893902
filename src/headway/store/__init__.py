"""What remembers: one protocol, a memory store and a SQL store, one conformance suite for both."""
