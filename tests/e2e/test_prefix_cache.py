"""What the prefix cache shares, and what `cached_tokens` says of it, over HTTP at every page size."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import WITHOUT_TLS, ServerProcess

PAGE_SIZES = (1, 16, 64)


@pytest.fixture(scope="module", params=PAGE_SIZES, ids=lambda size: f"page{size}")
def page_size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def server(page_size: int, tiny_model: str) -> Iterator[ServerProcess]:
    flags = ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "4096")
    with ServerProcess(*flags, "--page-size", str(page_size), "--radix-eviction-policy", "slru") as server:
        yield server


@pytest.fixture(autouse=True)
def empty_cache(server: ServerProcess) -> None:
    assert flush(server, timeout=30).status_code == 200


def flush(server: ServerProcess, timeout: float = 0) -> httpx.Response:
    return server.http.post("/flush_cache", params={"timeout": timeout})


def prompt(number: int, length: int) -> list[int]:
    """Token ids; two numbers differ from the first id on."""
    return [100 + number] + [200 + (number * 7 + place) % 50 for place in range(1, length)]


def cached_if_repeated(prompt_len: int, page_size: int) -> int:
    """The last token is always computed, and pages are shared whole."""
    return (prompt_len - 1) // page_size * page_size


def complete(server: ServerProcess, prompt: Any, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "prompt": prompt, "max_tokens": 3, "ignore_eos": True, **fields}
    usage: dict[str, Any] = server.post("/v1/completions", body).raise_for_status().json()["usage"]
    return usage


def cached(usage: dict[str, Any]) -> int:
    return int(usage["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("prompt_len", [1, 15, 16, 17, 63, 64, 65, 200])
def test_a_repeated_prompt_is_cached_but_for_its_last_token_in_whole_pages(
    server: ServerProcess, page_size: int, prompt_len: int
) -> None:
    assert cached(complete(server, prompt(1, prompt_len))) == 0
    assert cached(complete(server, prompt(1, prompt_len))) == cached_if_repeated(prompt_len, page_size)


def test_a_prompt_that_goes_on_from_an_answer_finds_the_answer_cached(
    server: ServerProcess, page_size: int
) -> None:
    body = {"input_ids": prompt(1, 100), "sampling_params": {"max_new_tokens": 40, "ignore_eos": True}}
    answer = server.post("/generate", body).raise_for_status().json()
    longer = prompt(1, 100) + answer["output_ids"] + [5]
    assert len(longer) == 141
    # The last token of an answer is never computed: nothing came after it.
    assert cached(complete(server, longer)) == 139 // page_size * page_size


def test_of_several_choices_the_usage_counts_the_prompt_once_as_the_first_found_it(
    server: ServerProcess, page_size: int
) -> None:
    """So what was cached is never more than what was read."""
    cold = complete(server, prompt(1, 100), n=4, temperature=1.0)
    assert (cold["prompt_tokens"], cold["completion_tokens"], cached(cold)) == (100, 12, 0)
    warm = complete(server, prompt(1, 100), n=4, temperature=1.0)
    assert (warm["prompt_tokens"], cached(warm)) == (100, cached_if_repeated(100, page_size))


def test_a_list_of_prompts_sums_what_each_found(server: ServerProcess, page_size: int) -> None:
    complete(server, prompt(1, 80))
    complete(server, prompt(3, 90))
    usage = complete(server, [prompt(1, 80), prompt(2, 50), prompt(3, 90)], n=2)
    assert usage["prompt_tokens"] == 220
    assert usage["completion_tokens"] == 18
    assert cached(usage) == cached_if_repeated(80, page_size) + cached_if_repeated(90, page_size)


def test_two_equal_prompts_that_arrive_together_say_what_one_says(server: ServerProcess) -> None:
    """Neither reads what the other has not computed yet."""
    body = {"model": "m", "prompt": prompt(4, 320), "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    both = server.post("/v1/completions", body | {"prompt": [prompt(4, 320)] * 2}).raise_for_status().json()
    assert flush(server).status_code == 200
    (alone,) = server.post("/v1/completions", body).raise_for_status().json()["choices"]
    assert [choice["text"] for choice in both["choices"]] == [alone["text"]] * 2


def test_each_answer_of_a_batch_says_what_its_own_prompt_found(server: ServerProcess, page_size: int) -> None:
    complete(server, prompt(1, 80))
    body = {
        "input_ids": [prompt(2, 70), prompt(1, 80)],
        "sampling_params": {"max_new_tokens": 2, "ignore_eos": True, "n": 2},
    }
    answers = server.post("/generate", body).raise_for_status().json()
    found = [answer["meta_info"]["cached_tokens"] for answer in answers]
    first, second = cached_if_repeated(70, page_size), cached_if_repeated(80, page_size)
    assert found == [0, first, second, second]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/generate"])
def test_salts_and_keys_never_mix(server: ServerProcess, page_size: int, path: str) -> None:
    def found(**keys: str) -> int:
        words = "tell me a long story about " * 20
        body: dict[str, Any] = {"model": "m", "max_tokens": 1, **keys}
        match path:
            case "/v1/completions":
                body["prompt"] = words
            case "/v1/chat/completions":
                body["messages"] = [{"role": "user", "content": words}]
            case _:
                body = {"text": words, "sampling_params": {"max_new_tokens": 1}, **keys}
        answer = server.post(path, body).raise_for_status().json()
        return int(answer["meta_info"]["cached_tokens"]) if path == "/generate" else cached(answer["usage"])

    names: list[dict[str, str]] = [
        {},
        {"cache_salt": "a", "extra_key": "bc"},
        {"cache_salt": "ab", "extra_key": "c"},
        {"cache_salt": "abc"},
        {"extra_key": "abc"},
        {"cache_salt": "bc", "extra_key": "a"},
    ]
    assert [found(**name) for name in names] == [0] * 6
    assert min(found(**name) for name in names) >= 64


@pytest.mark.parametrize("salt", ["", "x" * 513])
def test_an_empty_or_endless_salt_is_a_400(server: ServerProcess, salt: str) -> None:
    response = server.post("/v1/completions", {"model": "m", "prompt": "hi", "cache_salt": salt})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "cache_salt"


def test_a_flush_is_refused_while_a_request_runs_and_changes_nothing(server: ServerProcess) -> None:
    complete(server, prompt(1, 129))
    with RunningRequest(server) as running:
        response = flush(server)
        assert response.status_code == 400
        assert "1 requests are running" in response.json()["error"]["message"]
        assert flush(server, timeout=0.2).status_code == 400
        assert cached(complete(server, prompt(1, 129))) == 128
        running.leave()
        assert flush(server, timeout=30).status_code == 200
    assert cached(complete(server, prompt(1, 129))) == 0


def test_a_flush_right_after_an_abort_is_done_soon(server: ServerProcess) -> None:
    for _ in range(5):
        with RunningRequest(server, rid="doomed"):
            assert server.post("/abort_request", {"rid": "doomed"}).status_code == 200
            assert flush(server, timeout=10).status_code == 200


def test_nothing_had_to_be_repaired(server: ServerProcess) -> None:
    (state,) = server.get("/server_info")["internal_states"]
    assert state["num_ledger_repairs"] == 0
    assert "does not add up" not in server.log()


class RunningRequest:
    """A long streamed answer whose first token has come; leaves with the block, or before."""

    def __init__(self, server: ServerProcess, **fields: Any) -> None:
        body = {"model": "m", "prompt": prompt(9, 10), "max_tokens": 3000, "ignore_eos": True, "stream": True}
        self._client = httpx.Client(base_url=server.base_url, timeout=60, verify=WITHOUT_TLS)
        self._stream = self._client.stream("POST", "/v1/completions", json=body | fields)

    def __enter__(self) -> "RunningRequest":
        # Kept: an iterator that is let go closes the connection.
        self._events = self._stream.__enter__().iter_raw()
        next(self._events)
        return self

    def leave(self) -> None:
        self._client.close()

    def __exit__(self, *_: object) -> None:
        self.leave()
