"""What all tests need."""

from __future__ import annotations

import signal

# A shell without job control starts background jobs with Ctrl-C ignored, and children inherit it:
# tests that press Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
