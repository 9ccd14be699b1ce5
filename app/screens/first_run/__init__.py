"""First run: three steps from an empty home to the first picture."""
