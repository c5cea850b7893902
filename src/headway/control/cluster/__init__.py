"""What operators ask for: queues, pools and licences set and removed, nodes cordoned and drained."""
