"""The agent that runs on a node: standard library only, Python 3.8 or newer, no import of the server."""

__version__ = "0.1.0"
