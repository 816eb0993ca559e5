"""Messages to prompt text, by the model's own Jinja template, in a sandbox.

Gives templates what Hugging Face gives them, so that they render the same. A template is the checkpoint author's
program: it can reach nothing but its inputs, and its time and its output are bounded. Messages are data, never
templates.
"""

import contextvars
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils

from srt.errors import InvalidRequest
from srt.tokenizer.chat_content import ContentFormat, content_format, normalise_message
from srt.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

MAX_OUTPUT_CHARS = 32 * 1024 * 1024
TIME_LIMIT_S = 10.0  # of a core's time: who has none for a while is not to blame for it
MAX_REPETITION = 1024 * 1024  # elements that `"x" * n` may make

# What only render() itself may set.
RESERVED_NAMES = ("messages", "tools", "add_generation_prompt", "continue_final_message")
# Marks the end of the message that the model shall go on writing; cut off with all that follows. The space behind it
# tells whether the template strips a message's end: then what we keep is stripped too, as Hugging Face does.
END_MARK = "END_OF_THE_FINAL_MESSAGE_c0ffee5d"
END_MARK_AND_SPACE = END_MARK + " "

# Whatever a program may raise that was given unexpected data: here the template is the program.
TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)

# By the clock of the thread that renders.
_deadline: contextvars.ContextVar[float] = contextvars.ContextVar("_deadline", default=math.inf)


class ChatTemplate:
    """Compiled once; `render` may be called from several threads.

    A source that does not compile, or none, is no error until somebody chats: completions need no template.
    """

    def __init__(
        self,
        source: str | None,
        *,
        bos_token: str | None = None,
        eos_token: str | None = None,
        time_limit_s: float = TIME_LIMIT_S,
        max_output_chars: int = MAX_OUTPUT_CHARS,
    ) -> None:
        special_tokens = {"bos_token": bos_token, "eos_token": eos_token}
        # Left out when there is none: a template prints None as text, and what is not there as nothing.
        self._special_tokens = {name: token for name, token in special_tokens.items() if token is not None}
        self._time_limit_s = time_limit_s
        self._max_output_chars = max_output_chars
        self._template: jinja2.Template | None = None
        self._problem = (
            "this model has no chat template: use completions, or start the server with --chat-template"
        )
        self.content_format: ContentFormat = "string"
        if source is not None:
            self._compile(source)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "ChatTemplate":
        """The template that came with a tokenizer."""
        return cls(tokenizer.chat_template, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt's text; tokenise it without further special tokens. Changes nothing it is given.

        With `continue_final_message` the prompt ends where the last message's content ends. Raises InvalidRequest.
        """
        if self._template is None:
            raise InvalidRequest(self._problem, param="messages")
        _check_request(messages, add_generation_prompt, continue_final_message, template_kwargs)
        seen_messages = [
            normalise_message(message, self.content_format, path=f"messages[{i}]")
            for i, message in enumerate(messages)
        ]
        if continue_final_message:
            _mark_end(seen_messages[-1])
        variables = {
            "documents": None,
            **self._special_tokens,
            **(template_kwargs or {}),
            "messages": seen_messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._run(self._template, variables)
        return _cut_at_mark(text, seen_messages[-1]) if continue_final_message else text

    def _compile(self, source: str) -> None:
        environment = _Environment()
        try:
            self._template = environment.from_string(source)
            self.content_format = content_format(environment.parse(source))
        except (jinja2.TemplateError, RecursionError) as error:
            self._problem = f"this model's chat template is broken: {error}"
            logger.warning("%s; chat requests will be refused", self._problem)

    def _run(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        reset = _deadline.set(time.thread_time() + self._time_limit_s)
        parts: list[str] = []
        num_chars = 0
        try:
            for part in template.generate(variables):
                parts.append(part)
                num_chars += len(part)
                if num_chars > self._max_output_chars:
                    raise jinja2.TemplateRuntimeError(
                        f"it wrote more than {self._max_output_chars} characters"
                    )
                _check_time()
        except TEMPLATE_ERRORS as error:
            raise InvalidRequest(
                f"the chat template refused these messages: {error}", param="messages"
            ) from error
        finally:
            _deadline.reset(reset)
        return "".join(parts)


def _check_request(
    messages: Sequence[Mapping[str, Any]],
    add_generation_prompt: bool,
    continue_final_message: bool,
    template_kwargs: Mapping[str, Any] | None,
) -> None:
    if not messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    if continue_final_message and add_generation_prompt:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
        )
    for name in template_kwargs or ():
        if name in RESERVED_NAMES:
            raise InvalidRequest(f"chat_template_kwargs must not set {name}", param="chat_template_kwargs")


def _mark_end(message: dict[str, Any]) -> None:
    """Put the mark behind the content's last text."""
    content = message.get("content")
    if isinstance(content, str):
        message["content"] = content + END_MARK_AND_SPACE
        return
    if isinstance(content, list) and content:
        content[-1]["text"] += END_MARK_AND_SPACE
        return
    raise InvalidRequest(
        "continue_final_message needs a last message with text", param="continue_final_message"
    )


def _cut_at_mark(text: str, message: Mapping[str, Any]) -> str:
    position = text.rfind(END_MARK)
    if position < 0:
        raise InvalidRequest(
            f"this model's chat template does not show the text of a last message of role {message.get('role')}, "
            "so it cannot be continued",
            param="continue_final_message",
        )
    is_kept_whole = text.startswith(END_MARK_AND_SPACE, position)
    return text[:position] if is_kept_whole else text[:position].rstrip()


def _check_time() -> None:
    if time.thread_time() > _deadline.get():
        raise jinja2.TemplateRuntimeError("it took too long")


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model is trained on; here it is only its content."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox, with Hugging Face's globals and filters, and a look at the clock wherever data is touched."""

    intercepted_binops = frozenset(("*", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
        )
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["namespace"] = _Namespace
        del self.globals["lipsum"]  # writes as much as it is asked for

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look up obj[argument]."""
        _check_time()
        return super().getitem(obj, argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up obj.attribute."""
        _check_time()
        return super().getattr(obj, attribute)

    def call(self, context: jinja2.runtime.Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function or macro of the template's, whose arguments may have any names."""
        _check_time()
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Multiply or raise to a power, unless the result would fill the memory."""
        sized, count = (left, right) if isinstance(right, int) else (right, left)
        if operator == "*" and isinstance(sized, str | list | tuple) and isinstance(count, int):
            if len(sized) * count > MAX_REPETITION:
                raise jinja2.exceptions.SecurityError(f"a repetition of more than {MAX_REPETITION} elements")
        elif operator == "**" and (abs(right) > 64 or abs(left) > MAX_REPETITION):
            raise jinja2.exceptions.SecurityError("a power that large")
        return super().call_binop(context, operator, left, right)


class _Namespace(jinja2.utils.Namespace):
    """Variables that outlive a loop. No underscores: nothing here may look like a part of Python."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name}")
        super().__setitem__(name, value)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON. Jinja's own filter escapes for HTML, which no model was trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
