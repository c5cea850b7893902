"""Whether a training resumes: what a rehearsal shows, what its log counts, and what to change."""
