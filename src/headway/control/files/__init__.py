"""Files of jobs on the server's side: bundles, the index of logs and its upkeep, and what nobody needs any more."""
