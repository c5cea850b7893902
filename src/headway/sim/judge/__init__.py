"""The judge: it stands outside, keeps its own record, and names the sentence that broke."""
