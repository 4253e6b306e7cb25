"""Samplers: sweeps, chains, and where blocks of rows run."""
