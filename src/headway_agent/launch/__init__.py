"""From a duty to what the keeper starts: each rank's environment, what a gang must know, mpirun, the SDK."""
