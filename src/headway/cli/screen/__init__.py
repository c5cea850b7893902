"""What people see: pages of jobs and of the cluster, a followed job, the terminal of a visit."""
