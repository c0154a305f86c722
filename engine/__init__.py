"""Measures: parameters, experiments, clock, telemetry, journal and the sweep process."""
