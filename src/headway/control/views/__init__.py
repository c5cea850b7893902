"""What people are shown. Reads only; a view never writes."""
