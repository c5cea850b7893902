"""Ways of getting nodes: one protocol, one file per engine, one conformance suite."""
