"""What is decided on a node: facts in, acts out, the state in between, and what is told to the server. Pure."""
