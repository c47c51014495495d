"""What is measured, and against whom. Not installed with the package."""
