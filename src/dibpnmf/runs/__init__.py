"""Runs that survive: a folder with a run's data, parameters, draws and states."""
