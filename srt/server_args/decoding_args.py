"""How answers are read and shaped."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class DecodingArgs:
    """Decoding flags."""

    tool_call_parser: str = flag(
        "auto",
        help="Format of the model's tool calls (docs/tools_and_reasoning.md lists them), auto or none. "
        "auto: the one that its chat template writes.",
    )
    reasoning_parser: str = flag(
        "auto", help="The same for what the model thinks aloud, told apart from its answer."
    )
    grammar_backend: str = flag(
        "xgrammar",
        help="What holds an answer to a JSON schema, a pattern or a grammar. none: such requests are refused.",
        choices=("xgrammar", "none"),
    )
    grammar_compile_timeout: float = flag(
        10.0,
        help="Seconds of processor time that compiling one grammar may take; beyond it, or after four times as long "
        "on a busy machine, the request gets a 400.",
    )
    grammar_compile_memory_mb: int = flag(
        1024, help="Memory in MB that compiling one grammar may take; beyond it the request gets a 400."
    )
