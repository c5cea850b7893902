"""The way to the server: HTTP, which address to ask, whose certificates and which leader to believe, seals."""
