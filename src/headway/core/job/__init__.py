"""The life of one job: its states, the signals that it hears, causes of ends, retries, recorded facts."""
