"""Write `tokenizer.json` for a checkpoint that has none. A program of its own: it loads transformers, and ends.

    python convert.py SOURCE OUT_DIR

SOURCE is a .gguf file or a folder. Runs no code that a checkpoint brings. srt/tokenizer/load.py starts it.
"""

import sys
from pathlib import Path

import transformers


def convert(source: Path, out_dir: Path) -> None:
    """Load the tokenizer in whatever form it has; save it in the fast one."""
    if source.is_file():
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(source.parent), gguf_file=source.name, trust_remote_code=False, local_files_only=True
        )
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(source), trust_remote_code=False, local_files_only=True
        )
    if not tokenizer.is_fast:
        raise SystemExit(f"{type(tokenizer).__name__} has no fast form")
    tokenizer.save_pretrained(str(out_dir))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
