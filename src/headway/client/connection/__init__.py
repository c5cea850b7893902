"""The way to a server: HTTP, the server of this machine, patience with it, and signing in."""
