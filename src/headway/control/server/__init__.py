"""What a server process does around its work: readiness, its log, its storage, copies, its configuration file."""
