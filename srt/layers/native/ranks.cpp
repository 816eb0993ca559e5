// What the ranks of one machine do together, for tensors as a whole. Calls come in the same order on every rank; those
// for words may come from another thread. Each returns the loss: after one, what the tensors hold means nothing.

#include "ranks.h"

namespace {

template <typename Value> void add_up(Ranks& ranks, Value* values, int64_t count) {
    Member alone;
    uint32_t exchange = ranks.num_exchanges;
    add_up_together(alone, ranks, exchange, values, count,
                    [&](auto sums, int64_t index) { round_to(values + index, sums); });
}

}  // namespace

extern "C" int64_t lockstep_rank_memory(int32_t num_ranks) {
    return sizeof(Board) + 2 * num_ranks * SLOT_BYTES + NUM_WORDS * WORD_BYTES;
}

// In place. Types as in library.py: float32, bfloat16, float16.
extern "C" int32_t lockstep_add_up(Ranks* ranks, void* values, int64_t count, int32_t value_type) {
    switch (value_type) {
        case 0: add_up(*ranks, static_cast<float*>(values), count); break;
        case 1: add_up(*ranks, static_cast<BFloat16*>(values), count); break;
        default: add_up(*ranks, static_cast<Float16*>(values), count);
    }
    return ranks->loss;
}

// Rows of every rank, side by side in the ranks' order.
extern "C" int32_t lockstep_side_by_side(Ranks* ranks, const char* rows, int64_t num_rows, int64_t row_bytes,
                                         char* outputs) {
    const int64_t num_bytes = num_rows * row_bytes;
    for (int64_t start = 0; start < num_bytes; start += SLOT_BYTES) {
        const int64_t end = std::min(start + SLOT_BYTES, num_bytes);
        const uint32_t exchange = ranks->num_exchanges++;
        std::memcpy(slot_of<char>(*ranks, ranks->rank, exchange), rows + start, end - start);
        if (!meet(*ranks)) break;
        for (int rank = 0; rank < ranks->size; rank++) {
            const char* from = slot_of<char>(*ranks, rank, exchange);
            for (int64_t at = start; at < end;) {
                const int64_t row = at / row_bytes, column = at % row_bytes;
                const int64_t size = std::min(row_bytes - column, end - at);
                std::memcpy(outputs + (row * ranks->size + rank) * row_bytes + column, from + (at - start), size);
                at += size;
            }
        }
    }
    return ranks->loss;
}

// From rank 0 to all others.
extern "C" int32_t lockstep_tell(Ranks* ranks, char* bytes, int64_t num_bytes) {
    Board& own = board(*ranks);
    char* words = ranks->memory + sizeof(Board) + 2 * ranks->size * SLOT_BYTES;
    for (int64_t start = 0; start < num_bytes; start += WORD_BYTES) {
        const int64_t size = std::min(WORD_BYTES, num_bytes - start);
        char* word = words + ranks->num_told % NUM_WORDS * WORD_BYTES;
        const uint32_t number = ++ranks->num_told;
        if (ranks->rank == 0) {
            for (int rank = 1; rank < ranks->size; rank++)
                if (!wait_for(*ranks, own.heard[rank], number - NUM_WORDS, ranks->patience_ns[1])) return ranks->loss;
            std::memcpy(word, bytes + start, size);
            raise(own.told, number);
        } else {
            if (!wait_for(*ranks, own.told, number, ranks->patience_ns[1])) return ranks->loss;
            std::memcpy(bytes + start, word, size);
            raise(own.heard[ranks->rank], number);
        }
    }
    return ranks->loss;
}
