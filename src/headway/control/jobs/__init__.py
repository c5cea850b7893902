"""What people ask of jobs: submitted, stopped, changed, derived from others, planned."""
