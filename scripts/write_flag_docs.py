"""Write docs/flags.md from the flag groups and the environment variables; `--check` only compares.

.venv/bin/python -m scripts.write_flag_docs
"""

import sys
from pathlib import Path

from scripts.written_page import write_or_check
from srt import env
from srt.server_args.cli import Flag, flag_groups

PAGE = Path(__file__).parent.parent / "docs" / "flags.md"
HEAD = """\
# Flags

<!-- Written by scripts/write_flag_docs.py out of srt/server_args/ and srt/env.py. Do not edit. -->

`python -m launch_server --help` prints the same. Names are SGLang's wherever the meaning is the same.
A flag that is not here does not exist yet, and the server refuses it.

`--config FILE` takes them from a YAML, JSON or TOML file: one level of keys, each a flag's name with dashes or
underscores, switches `true` or `false`. What the command line says itself wins. Everything that is wrong in the file is
said at once; a key that is no flag is an error, with the flags that are spelled nearly so.

```yaml
model-path: /models/Qwen3-0.6B
page-size: 16
enable-metrics: true
```
"""


def render_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for group in flag_groups():
        parts.append(f"\n## {group.title}\n\n| flag | value | default | meaning |\n|---|---|---|---|\n")
        parts.extend(_row(flag) for flag in group.flags)
    parts.append("\n## Environment\n\n| variable | default | meaning |\n|---|---|---|\n")
    for variable in env.ALL:
        default = f"`{variable.default}`" if variable.default else ""
        parts.append(f"| `{variable.name}` | {default} | {variable.help} |\n")
    return "".join(parts)


def _row(flag: Flag) -> str:
    spellings = ", ".join(f"`{spelling}`" for spelling in (flag.option, *flag.info.aliases))
    if flag.value_type is bool:
        return f"| {spellings} | | off | {flag.info.help} |\n"
    if flag.info.choices is not None:
        value = ", ".join(f"`{choice}`" for choice in flag.info.choices)
    else:
        value = {int: "whole number", float: "number", str: "text"}[flag.value_type]
    default = "" if flag.default is None else f"`{flag.default}`"
    return f"| {spellings} | {value} | {default} | {flag.info.help} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render_page(), script="write_flag_docs"))
