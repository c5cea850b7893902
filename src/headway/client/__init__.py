"""The way to a server: HTTP, the embedded server of this machine, the SDK, and the story that a job's logs tell."""
