"""The nodes: what their agents say and are answered, and which nodes are ordered and released."""
