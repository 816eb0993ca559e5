"""Quantisation settings of a Hugging Face checkpoint: for now, they are recognised to be refused."""

from srt.configs.json_file import JsonObject


def refuse_quantisation(config: JsonObject) -> None:
    """Raise StartupError if the checkpoint's weights are quantised."""
    quantisation = config.child("quantization_config") or config.child("compression_config")
    if quantisation is None:
        return
    method = quantisation.text("quant_method", "unknown")
    raise config.error(
        f"the weights are quantised ({method}), which is not supported; use the model's unquantised "
        "checkpoint or a GGUF file"
    )
