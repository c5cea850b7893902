"""What people see: pages of jobs and of the cluster, and a followed job."""
