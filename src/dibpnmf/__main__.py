"""The command line as ``python -m dibpnmf``."""

from dibpnmf.cli import main

main()
