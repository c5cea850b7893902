"""What tasks may use: sampled, judged, and enforced."""
