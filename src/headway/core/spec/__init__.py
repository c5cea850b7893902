"""What users and operators may ask for: descriptions of jobs, pools and queues, and what they use, checked."""
