"""What users and operators may ask for: descriptions of jobs, pools, queues, schedules and secrets, checked."""
