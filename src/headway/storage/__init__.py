"""Where bytes are kept: one protocol, one conformance suite, folders now and object stores by the same library."""
