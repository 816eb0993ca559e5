"""Sampling defaults that a checkpoint ships in generation_config.json."""

from srt.configs.json_file import JsonObject

SAMPLING_KEYS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def read_generation_defaults(generation_config: JsonObject) -> dict[str, float | int]:
    """What the checkpoint's authors recommend, under the names of SamplingParams; what they leave out is absent.

    `do_sample` is not looked at: a client that asks for no temperature expects the API's habits, not greedy text.
    """
    found: dict[str, float | int] = {}
    for key in SAMPLING_KEYS:
        if not generation_config.has(key):
            continue
        found[key] = generation_config.integer(key) if key == "top_k" else generation_config.number(key)
    return found
