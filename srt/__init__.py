"""The work a Lockstep process does: HTTP, flags, text, models. Knows no other process."""

__version__ = "0.1.0"
