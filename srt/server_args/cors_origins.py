"""What `--cors-allow-origins` may say."""

ANY_ORIGIN = "*"


def parse_origins(value: str) -> tuple[str, ...]:
    """The flag's value as origins: separated by commas, or `*` for any. Raises ValueError with what is wrong."""
    origins = tuple(part.strip() for part in value.split(","))
    for origin in origins:
        if origin == ANY_ORIGIN:
            if len(origins) > 1:
                raise ValueError("* already means every origin")
            continue
        scheme, separator, host = origin.partition("://")
        if not (separator and scheme and host) or "/" in host or "*" in host or not origin.isascii():
            raise ValueError(
                f"{origin!r} is no origin, such as https://chat.example.org or http://localhost:3000"
            )
    return origins
