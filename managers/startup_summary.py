"""What was decided at start, and why: a few lines for whoever reads the log."""

from collections.abc import Mapping, Sequence
from typing import Any

from srt.engine_client import ModelInfo

# A fact of this name with this ending says why another fact is what it is.
REASON = "_reason"


def startup_summary(model: ModelInfo, facts: Mapping[str, Any]) -> Sequence[str]:
    """One line a decision, the reasons aligned. `facts` are those of the scheduler's rank 0."""
    rows = [
        ("model", model.model_path, model.architecture),
        ("served as", model.served_model_name, ""),
        ("longest request", f"{model.context_length} tokens", "prompt and answer together"),
    ]
    for name, value in facts.items():
        if not name.endswith(REASON):
            rows.append((name.replace("_", " "), _shown(name, value), str(facts.get(name + REASON, ""))))
    name_width = max(len(name) for name, _, _ in rows)
    # A path may be as long as it likes without moving everybody's reason to the right.
    value_width = max(len(value) for _, value, _ in rows if len(value) <= 24)
    return [f"  {name:<{name_width}}  {value:<{value_width}}  {why}".rstrip() for name, value, why in rows]


def _shown(name: str, value: Any) -> str:
    if name.endswith("_bytes"):
        return f"{value / 2**30:.2f} GiB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "none" if value is None else str(value)
