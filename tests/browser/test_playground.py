"""The playground in a real browser, with a real server and the default model behind it."""

import json
from typing import Any

import pytest

from tests.browser.playground_page import PlaygroundPage, chunk, token
from tests.e2e.server_process import ServerProcess

expect = pytest.importorskip("playwright.sync_api", reason="scripts/test_browser installs it").expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARKUP = '<img src="x" onerror="alert(1)"><b>bold</b>'


def test_without_the_key_the_page_is_there_and_asks_for_it(locked: PlaygroundPage) -> None:
    locked.open()
    expect(locked.page.locator("#trouble")).to_have_text("The server wants its API key.")
    locked.say("Hello")
    expect(locked.answer().get_by_role("alert")).to_contain_text("The server answered 401")
    expect(locked.page.get_by_label("API key")).to_be_focused()
    locked.unlock()
    expect(locked.page.locator("#trouble")).to_be_hidden()


def test_a_conversation(playground: PlaygroundPage) -> None:
    playground.set("Temperature", "0")
    playground.set("Max. tokens", "24")
    playground.set("System prompt", "You are a helpful assistant named Ada.")
    playground.say("What is the capital of France?")
    expect(playground.answer()).to_contain_text("Paris")
    expect(playground.answer()).to_contain_text("to first token")
    expect(playground.answer()).to_contain_text("tokens/s")
    expect(playground.page.get_by_label("Message")).to_be_focused()
    playground.say("And of Italy?")
    playground.answer(2)

    first, second = playground.bodies
    assert first["messages"] == [
        {"role": "system", "content": "You are a helpful assistant named Ada."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    assert (first["temperature"], first["max_completion_tokens"]) == (0, 24)
    assert first["model"] == "SmolLM2-135M-Instruct"
    shown = playground.answer().locator(".text").text_content()
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": shown},
        {"role": "user", "content": "And of Italy?"},
    ]


def test_the_shown_answer_is_the_answer(playground: PlaygroundPage, server: ServerProcess) -> None:
    playground.set("Temperature", "0")
    playground.set("Max. tokens", "40")
    playground.say("Write one line with an emoji, an accent and 日本語.")
    shown = playground.answer().locator(".text").text_content()
    body = {
        key: value for key, value in playground.bodies[0].items() if key not in ("stream", "stream_options")
    }
    whole = playground.page.request.post(
        f"{server.base_url}/v1/chat/completions",
        data=json.dumps(body),
        headers={"Content-Type": "application/json", "x-api-key": "key-of-the-playground-tests"},
    ).json()
    assert shown == whole["choices"][0]["message"]["content"]


def test_pointing_at_a_token_shows_what_else_could_have_stood_there(playground: PlaygroundPage) -> None:
    playground.set("Temperature", "0")
    playground.set("Max. tokens", "8")
    playground.say("What is the capital of France?")
    first = playground.answer().locator(".token").first
    first.hover()
    alternatives = playground.page.get_by_role("tooltip")
    expect(alternatives).to_be_visible()
    expect(alternatives.get_by_role("row")).to_have_count(5)
    # Greedy: the one that was taken is the likeliest.
    expect(alternatives.get_by_role("row").first).to_have_class("chosen")
    expect(alternatives.get_by_role("row").first.get_by_role("rowheader")).to_have_text(first.text_content())
    playground.page.mouse.move(640, 700)
    expect(alternatives).to_be_hidden()


def test_arrow_keys_walk_over_the_tokens_and_say_them(playground: PlaygroundPage) -> None:
    playground.play(
        chunk(content="Hi", logprobs=[token("Hi", -0.1)]),
        chunk(content=" you", logprobs=[token(" you", -0.7)]),
        chunk("stop"),
        "[DONE]",
    )
    playground.say("Hello")
    playground.answer().locator(".text").focus()
    playground.page.keyboard.press("ArrowRight")
    expect(playground.page.get_by_role("status")).to_have_text("Hi 90 %")
    playground.page.keyboard.press("ArrowRight")
    expect(playground.page.get_by_role("status")).to_have_text("·you 50 %")
    playground.page.keyboard.press("Escape")
    expect(playground.page.get_by_role("tooltip")).to_be_hidden()


def test_tokens_that_are_half_a_character_or_no_text_at_all_leave_the_text_alone(
    playground: PlaygroundPage,
) -> None:
    playground.play(
        chunk(role="assistant", content=""),
        chunk(content="a", logprobs=[token("<marker>"), token("a")]),
        chunk(content="", logprobs=[token("🦊".encode()[:2])]),
        chunk(content="🦊b", logprobs=[token("🦊".encode()[2:]), token("b")]),
        chunk(content="never told"),
        chunk(content="c", logprobs=[token(" c"), token("<end>")]),
        chunk("stop"),
        "[DONE]",
    )
    playground.say("Hello")
    answer = playground.answer()
    assert answer.locator(".text").text_content() == "a🦊bnever toldc"
    assert answer.locator(".token").all_text_contents() == ["a", "🦊", "b", "c"]


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_an_answer_can_be_stopped_and_the_server_stops_too(playground: PlaygroundPage, way: str) -> None:
    playground.set_more(ignore_eos=True)
    playground.say("Tell me a long story.")
    page = playground.page
    expect(page.locator(".busy .token").nth(5)).to_be_visible(timeout=60_000)
    expect(page.locator("#running")).to_contain_text("1 of")
    page.get_by_role("button", name="Stop").click() if way == "button" else page.keyboard.press("Escape")
    answer = playground.answer()
    expect(answer).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator("#running")).to_contain_text("0 of")
    # What was said so far belongs to the conversation.
    playground.set("More of the body (JSON)", "")
    playground.set("Max. tokens", "4")
    playground.say("Go on.")
    playground.answer(2)
    assert playground.bodies[1]["messages"][1]["content"] == answer.locator(".text").text_content()


def test_what_is_wrong_with_a_parameter_is_said_and_the_field_marked(playground: PlaygroundPage) -> None:
    playground.set("Top p", "7")
    playground.set("Max. tokens", "4")
    playground.say("Hello")
    failure = playground.answer().get_by_role("alert")
    expect(failure).to_contain_text("The server answered 400")
    expect(failure).to_contain_text("param: top_p")
    expect(playground.page.get_by_label("Top p")).to_have_attribute("aria-invalid", "true")
    playground.set("Top p", "0.9")
    failure.get_by_role("button", name="Try again").click()
    expect(playground.answer()).to_contain_text("to first token")
    expect(playground.page.get_by_role("alert")).to_have_count(0)
    expect(playground.page.get_by_label("Top p")).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize("typed", ["warm", "9223372036854775807"])
def test_what_is_no_number_reaches_the_server_as_it_is(playground: PlaygroundPage, typed: str) -> None:
    playground.set("Seed", typed)
    playground.say("Hello")
    expect(playground.answer().get_by_role("alert")).to_contain_text("param: seed")
    assert playground.bodies[0]["seed"] == typed


def test_an_error_in_the_middle_of_an_answer_keeps_what_came_before(playground: PlaygroundPage) -> None:
    playground.set_more(ignore_eos=True, timeout_s=1.5)
    playground.say("Tell me a long story.")
    answer = playground.answer()
    expect(answer.get_by_role("alert")).to_contain_text("The answer broke off")
    expect(answer.locator(".token").first).to_be_visible()


def test_a_stream_that_breaks_off_is_an_error(playground: PlaygroundPage) -> None:
    playground.play(chunk(content="Once upon"))
    playground.say("Hello")
    expect(playground.answer().get_by_role("alert")).to_contain_text("ended before the answer did")
    expect(playground.answer().locator(".text")).to_have_text("Once upon")


def test_markup_is_text_whoever_says_it(playground: PlaygroundPage) -> None:
    playground.play(
        chunk(reasoning_content=MARKUP),
        chunk(content=MARKUP, logprobs=[token(MARKUP)]),
        {"error": {"message": MARKUP, "type": MARKUP, "param": None, "code": None}},
    )
    playground.say(MARKUP)
    answer = playground.answer()
    answer.locator(".token").hover()
    assert answer.locator(".text").text_content() == MARKUP
    expect(answer.get_by_role("alert")).to_contain_text(MARKUP)
    assert playground.page.locator("img, #conversation b:not(.notes b)").count() == 0


def test_thinking_is_folded(playground: PlaygroundPage) -> None:
    playground.play(
        chunk(reasoning_content="First, ", logprobs=[token("<think>"), token("First"), token(", ")]),
        chunk(reasoning_content="rivers.", logprobs=[token("rivers.")]),
        chunk(content="The Rhine.", logprobs=[token("</think>"), token("\n\nThe"), token(" Rhine.")]),
        chunk("stop"),
        "[DONE]",
    )
    playground.say("Name a river.")
    answer = playground.answer()
    thought = answer.locator(".thought")
    expect(thought).to_be_hidden()
    answer.get_by_text("Thought for").click()
    expect(thought).to_have_text("First, rivers.")
    assert thought.locator(".token").all_text_contents() == ["First", ", ", "rivers."]
    assert answer.locator(".text .token").all_text_contents() == ["The", " Rhine."]
    playground.say("Another.")
    playground.answer(2)
    assert playground.bodies[1]["messages"][1] == {"role": "assistant", "content": "The Rhine."}


def test_a_tool_call_is_shown_and_its_result_goes_back(playground: PlaygroundPage) -> None:
    def call(**fields: Any) -> dict[str, Any]:
        return chunk(tool_calls=[{"index": 0, **fields}])

    playground.play(
        call(id="call_1", type="function", function={"name": "weather", "arguments": ""}),
        call(function={"arguments": '{"city": '}),
        call(function={"arguments": '"Kyiv"}'}),
        chunk("tool_calls"),
        "[DONE]",
    )
    playground.say("How is the weather in Kyiv?")
    answer = playground.answer()
    expect(answer.get_by_role("heading")).to_have_text("weather")
    expect(answer.locator("pre")).to_have_text('{"city": "Kyiv"}')
    answer.get_by_label("Its result").fill("sunny")
    answer.get_by_role("button", name="Send result").click()
    playground.answer(2)
    function = {"name": "weather", "arguments": '{"city": "Kyiv"}'}
    assert playground.bodies[1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]


def test_shift_and_enter_begin_a_new_line(playground: PlaygroundPage) -> None:
    message = playground.page.get_by_label("Message")
    message.press_sequentially("one")
    message.press("Shift+Enter")
    message.press_sequentially("two")
    expect(message).to_have_value("one\ntwo")
    assert playground.bodies == []


def test_a_message_can_be_edited_and_a_chat_begun_anew(playground: PlaygroundPage) -> None:
    playground.play(chunk(content="Yes."), chunk("stop"), "[DONE]")
    playground.say("One?")
    playground.answer()
    playground.say("Two?")
    playground.answer(2)
    first = playground.page.get_by_role("article", name="You").first
    first.get_by_role("button", name="Edit").click()
    expect(playground.page.get_by_label("Message")).to_have_value("One?")
    expect(playground.page.get_by_role("article")).to_have_count(0)
    playground.say("Three?")
    playground.answer()
    assert [message["content"] for message in playground.bodies[-1]["messages"]] == ["Three?"]
    playground.page.get_by_role("button", name="New chat").click()
    expect(playground.page.get_by_role("heading", name="Talk to the model")).to_be_visible()


def test_figures_are_asked_for_while_the_page_is_seen(locked: PlaygroundPage) -> None:
    page = locked.page
    page.clock.install()
    locked.open()
    locked.unlock()

    def polls_in_three_seconds() -> int:
        before = locked.asked.count("/v1/loads")
        for _ in range(3):
            page.clock.run_for(1000)
            page.evaluate(
                "fetch('health').then((response) => response.status)"
            )  # what was asked before has come
        return locked.asked.count("/v1/loads") - before

    assert 2 <= polls_in_three_seconds() <= 4
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert polls_in_three_seconds() == 0
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    assert polls_in_three_seconds() >= 2


def test_on_a_narrow_screen_settings_are_a_sheet(playground: PlaygroundPage) -> None:
    page = playground.page
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_label("Temperature")).to_be_hidden()
    expect(page.locator("#running")).to_be_visible()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("Temperature")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Temperature")).to_be_hidden()
    expect(page.get_by_role("button", name="Settings")).to_be_focused()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width == 390, "nothing sticks out"
