"""`PriorityRules`: what the `priority` of a request means here."""

from dataclasses import dataclass

# Clients' priorities are 32-bit numbers (srt/entrypoints/request_identity.py); who names none comes after all who do.
LEAST_URGENT = -(2**31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRules:
    """The flags, decided. `preemption_threshold` None: who runs gives way to nobody."""

    is_enabled: bool = False
    low_values_first: bool = False
    default_priority: int | None = None
    preemption_threshold: int | None = None
    refuses_when_disabled: bool = False

    def level(self, priority: int | None) -> int:
        """The priority as a number of which higher is more urgent."""
        asked = self.default_priority if priority is None else priority
        if asked is None:
            return LEAST_URGENT
        return -asked if self.low_values_first else asked

    def urgency(self, priority: int | None) -> int:
        """The same for the scheduler, to which all are equal without priority scheduling."""
        return self.level(priority) if self.is_enabled else 0

    def refuses(self, priority: int | None) -> bool:
        """Whether to name a priority is an error."""
        return self.refuses_when_disabled and not self.is_enabled and priority is not None


NO_PRIORITIES = PriorityRules()
