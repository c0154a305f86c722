"""Pure functions from measurements to findings. No input or output."""
