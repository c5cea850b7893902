"""Who may come in and what they did: accounts, the audit log, and the keys that seal and sign."""
