"""Malformed files and parameters, kept, and the script that made them (make.py)."""
