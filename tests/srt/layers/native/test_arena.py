import torch

from srt.layers.native.arena import CACHE_LINE, LARGE, Arena


def test_pieces_are_zero_aligned_and_apart() -> None:
    arena = Arena()
    sizes = [1, CACHE_LINE, 1000, LARGE // 2, LARGE // 2, LARGE, LARGE + 1, 7]

    pieces = [arena.take(size) for size in sizes]

    assert [piece.numel() for piece in pieces] == sizes
    assert [piece.data_ptr() % CACHE_LINE for piece in pieces] == [0] * len(sizes)
    assert not any(piece.any() for piece in pieces)
    for number, piece in enumerate(pieces):
        piece.fill_(number + 1)
    for number, piece in enumerate(pieces):
        assert torch.equal(piece.unique(), torch.tensor([number + 1], dtype=torch.uint8))


def test_small_pieces_share_an_allocation() -> None:
    arena = Arena()

    first, second = arena.take(1000), arena.take(1000)

    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
