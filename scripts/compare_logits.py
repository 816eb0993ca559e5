"""How far each next token's probabilities are from float32's, by the way to compute them, for docs/performance.md.

`python -m scripts.compare_logits`. One text in pieces of 512 tokens, the same for each way. Divergence is Kullback and
Leibler's, from plain torch in float32, in nats a token.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from srt.configs.checkpoint import find_model
from srt.model_executor.model_runner import ModelRunner
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.real_runner import load_runner

REPOSITORY = Path(__file__).parent.parent
PIECE, NUM_TOKENS = 512, 4096
NATIVE = {"dtype": "bfloat16", "attention_backend": "native", "layers": "native"}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "plain torch in bfloat16": {"dtype": "bfloat16"},
    "native, `--quantization none`": NATIVE,
    "native, weights as the file has them": {**NATIVE, "quantization": "stored"},
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model-path", help="default: the default model")
    parser.add_argument("--text", type=Path, nargs="+", help="default: some of this project's pages")
    args = parser.parse_args()
    path = find_model(args.model_path)
    pages = args.text or [REPOSITORY / "docs" / "architecture.md", REPOSITORY / "LICENSE"]
    ids = load_tokenizer(prepare_tokenizer(path)).encode("\n".join(page.read_text() for page in pages))
    ids = ids[:NUM_TOKENS]
    exact = log_probabilities(load_runner(path), ids)
    print(f"{path.name}, {len(ids):,} tokens; float32 has a perplexity of {perplexity(exact, ids):.3f}\n")
    print("| way | divergence | 99th of 100 | same likeliest token | perplexity |\n|---|--:|--:|--:|--:|")
    for name, settings in WAYS.items():
        ours = log_probabilities(load_runner(path, **settings), ids)
        divergence = (exact.exp() * (exact - ours)).sum(dim=-1)
        same = (ours.argmax(dim=-1) == exact.argmax(dim=-1)).float().mean()
        print(
            f"| {name} | {divergence.mean():.5f} | {divergence.quantile(0.99):.4f} | {same:.1%} "
            f"| {perplexity(ours, ids):.3f} |",
            flush=True,
        )


def log_probabilities(runner: ModelRunner, ids: Sequence[int]) -> torch.Tensor:
    """(tokens, vocabulary): what comes behind each token."""
    parts = []
    for start in range(0, len(ids), PIECE):
        piece = list(ids[start : start + PIECE])
        batch = extend([(Tokens(), piece)], Slots(PIECE + 1))
        logits = runner.forward(replace(batch, logit_rows=torch.arange(len(piece)))).logits
        parts.append(logits.float().log_softmax(dim=-1))
    return torch.cat(parts)


def perplexity(log_probabilities: torch.Tensor, ids: Sequence[int]) -> float:
    """Of each piece but its first token."""
    is_inside = torch.arange(1, len(ids)) % PIECE != 0
    surprise = -log_probabilities[:-1].gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1)
    return float(surprise[is_inside].mean().exp())


if __name__ == "__main__":
    main()
