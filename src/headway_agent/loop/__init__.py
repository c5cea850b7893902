"""The agent's main loop: it brings facts to the decisions, performs the acts, and keeps what may block on threads."""
