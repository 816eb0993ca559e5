"""A score request to a GenerateRequest: a prompt an item, and the labels of each."""

from srt.engine_client import GenerateRequest, LogprobOptions, TextPrompt, TokenPrompt
from srt.entrypoints.label_probabilities import ONE_TOKEN, ask_labels
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.score.protocol import ScoreRequest
from srt.errors import InvalidRequest

MAX_SCORES = 1_000_000
FIELD_NAMES = {"prompt": "items", "max_tokens": "items"}


def to_generate_request(
    body: ScoreRequest, *, vocab_size: int, rid: str, dp_rank: int | None = None
) -> GenerateRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body)
    _check_temperature(body)
    prompts = _to_prompts(body)
    labels = _to_labels(body, len(prompts), vocab_size)
    num_scores = sum(len(row.token_ids) for row in labels)
    if num_scores > MAX_SCORES:
        raise InvalidRequest(
            f"one request may ask for {MAX_SCORES} scores, this one asks for {num_scores}", param="items"
        )
    request = GenerateRequest(
        prompts=prompts,
        sampling=[ONE_TOKEN] * len(prompts),
        logprobs=labels,
        stream=False,
        rid=checked_rid(body.rid, made=rid),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )
    check_num_choices(request)
    return request


def _check_temperature(body: ScoreRequest) -> None:
    if body.temperature is None or body.temperature == 1.0:
        return
    if not body.apply_softmax:
        raise InvalidRequest("temperature needs apply_softmax", param="temperature")
    # A division by less would overflow, one by 0 has no meaning.
    if not 1e-6 <= body.temperature <= 1e6:
        raise InvalidRequest("temperature must be between 0.000001 and 1000000", param="temperature")


def _to_prompts(body: ScoreRequest) -> list[TextPrompt | TokenPrompt]:
    """Query and item joined, as texts before they become tokens, or as token ids."""
    items = [body.items] if isinstance(body.items, str) else body.items
    if not items:
        raise InvalidRequest("items must not be empty", param="items")
    prompts: list[TextPrompt | TokenPrompt] = []
    for i, item in enumerate(items):
        first, second = (item, body.query) if body.item_first else (body.query, item)
        if isinstance(first, str) and isinstance(second, str):
            prompts.append(TextPrompt(first + second))
        elif isinstance(first, list) and isinstance(second, list):
            prompts.append(TokenPrompt(first + second))
        else:
            raise InvalidRequest(
                f"items[{i}] must be text if query is text, token ids if query is", param=f"items[{i}]"
            )
    return prompts


def _to_labels(body: ScoreRequest, num_items: int, vocab_size: int) -> list[LogprobOptions]:
    """The same labels for each item, or each its own."""
    rows = [row for row in body.label_token_ids if isinstance(row, list)]
    token_ids = [row for row in body.label_token_ids if isinstance(row, int)]
    if rows and token_ids:
        raise InvalidRequest("label_token_ids mixes token ids and lists", param="label_token_ids")
    if not rows:
        return [ask_labels(token_ids, vocab_size)] * num_items
    if len(rows) != num_items:
        raise InvalidRequest(
            f"there are {len(rows)} lists of label_token_ids for {num_items} items", param="label_token_ids"
        )
    return [ask_labels(row, vocab_size) for row in rows]
