"""Who asks, and what that lets them do: accounts, actors and tokens."""
