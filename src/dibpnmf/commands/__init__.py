"""Commands of the command line, a module each."""
