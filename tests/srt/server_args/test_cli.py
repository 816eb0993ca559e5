import pytest

from srt.server_args.cli import flag_groups, parse_args
from srt.server_args.server_args import ServerArgs


def test_no_flags_give_the_defaults_that_the_groups_declare() -> None:
    assert parse_args([]) == ServerArgs()


def test_a_field_is_typed_with_dashes_and_read_as_its_type() -> None:
    args = parse_args(["--page-size", "16", "--mem-fraction-static", "0.7", "--served-model-name", "m"])
    assert (args.page_size, args.mem_fraction_static, args.served_model_name) == (16, 0.7, "m")


def test_a_value_may_follow_an_equals_sign() -> None:
    assert parse_args(["--page-size=4"]).page_size == 4


def test_a_switch_takes_no_value() -> None:
    assert parse_args(["--disable-radix-cache"]).disable_radix_cache is True


@pytest.mark.parametrize(
    ("alias", "value", "name"), [("--tp", 2, "tp_size"), ("--model", "some/folder", "model_path")]
)
def test_an_alias_sets_the_same_field(alias: str, value: object, name: str) -> None:
    assert getattr(parse_args([alias, str(value)]), name) == value


def test_minus_one_is_a_value_and_not_a_flag() -> None:
    assert parse_args(["--chunked-prefill-size", "-1"]).chunked_prefill_size == -1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16"), ("auto", "auto")],
)
def test_a_number_format_is_known_by_one_name_behind_the_command_line(typed: str, meant: str) -> None:
    assert parse_args(["--dtype", typed]).dtype == meant


@pytest.mark.parametrize(
    "argv",
    [
        ["--no-such-flag"],
        ["--page-size", "many"],
        ["--schedule-policy", "lifo"],
        ["--page", "4"],  # an abbreviation
    ],
)
def test_what_cannot_be_read_ends_with_a_usage_message(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parse_args(argv)
    assert exit_info.value.code == 2
    assert "usage: python -m launch_server" in capsys.readouterr().err


def test_help_names_every_flag_and_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parse_args(["--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert exit_info.value.code == 0
    for group in flag_groups():
        assert group.title in printed
        for flag in group.flags:
            assert flag.option in printed
    assert "Port to listen on. (default: 30000)" in printed
