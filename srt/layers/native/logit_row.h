// One row of logits as the choice of a token sees it, in blocks whose greatest logits are known: a pass that asks for
// large logits skips most of the row.

#pragma once

#include "simd.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

constexpr int BLOCK_SIZE = 64;  // logits
constexpr float IMPOSSIBLE = -INFINITY;

inline bool any(Ints truths) {
#if LANES == 16
    return _mm512_test_epi32_mask(bits_as<__m512i>(truths), bits_as<__m512i>(truths)) != 0;
#else
    uint64_t words[LANES / 2], whole = 0;
    std::memcpy(words, &truths, sizeof words);
    for (uint64_t word : words) whole |= word;
    return whole != 0;
#endif
}

inline Words lane_numbers() {
    Words result;
    for (int lane = 0; lane < LANES; lane++) result[lane] = uint32_t(lane);
    return result;
}

// What is NaN or not allowed is impossible. A NaN may still stand there: it compares false with everything.
class LogitRow {
  public:
    // `allowed`: a bit for each token; null: all are. The row must stay where it is.
    template <typename Logit> void read(const Logit* logits, int size, const uint32_t* allowed) {
        if constexpr (std::is_same_v<Logit, float>) {
            values_ = logits;
            if (!allowed && size % BLOCK_SIZE == 0) return read_blocks<false>(logits, size, allowed);
        }
        own_.resize((size + BLOCK_SIZE - 1) / BLOCK_SIZE * BLOCK_SIZE);
        read_blocks<true>(logits, size, allowed);
        values_ = own_.data();
    }
    // Only what is greatest is to be known.
    template <typename Logit> void look_through(const Logit* logits, int size, const uint32_t* allowed) {
        read_blocks<false>(logits, size, allowed);
    }

    float greatest() const { return greatest_; }
    int size() const { return int(maxima_.size()) * BLOCK_SIZE; }
    const std::vector<float>& maxima() const { return maxima_; }

    int first_block_of_greatest() const {
        int block = 0;
        while (maxima_[block] != greatest_) block++;
        return block;
    }

    void make_finite() {
        greatest_ = FLT_MAX;
        if (values_ != own_.data()) own_.assign(values_, values_ + size());
        values_ = own_.data();
        for (float& logit : own_) logit = std::min(logit, FLT_MAX);  // a NaN stays one
        for (float& logit : maxima_) logit = std::min(logit, FLT_MAX);
    }

    // body(id, logits) for vectors of the blocks that reach `least`, which may rise meanwhile.
    template <typename Body> void each_from(const float& least, const Body& body) const {
        for (size_t block = 0; block < maxima_.size(); block++) {
            if (maxima_[block] < least) continue;
            const int start = int(block) * BLOCK_SIZE;
            for (int id = start; id < start + BLOCK_SIZE; id += LANES) body(id, load(values_ + id));
        }
    }

  private:
    std::vector<float> own_, maxima_;  // in whole blocks; of each block
    const float* values_ = nullptr;
    float greatest_ = 0;

    template <bool STORES, typename Logit> void read_blocks(const Logit* logits, int size, const uint32_t* allowed) {
        const int num_blocks = (size + BLOCK_SIZE - 1) / BLOCK_SIZE;
        maxima_.resize(num_blocks);
        greatest_ = IMPOSSIBLE;
        alignas(64) float last[BLOCK_SIZE];
        const Words lane_bits = all(1u) << lane_numbers();
        for (int block = 0; block < num_blocks; block++) {
            const Logit* from = logits + int64_t(block) * BLOCK_SIZE;
            const int count = std::min(size - block * BLOCK_SIZE, BLOCK_SIZE);
            if (count < BLOCK_SIZE) {
                std::fill(last, last + BLOCK_SIZE, IMPOSSIBLE);
                for (int i = 0; i < count; i++) last[i] = to_float(from[i]);
            }
            Floats largest_here = all(IMPOSSIBLE);
            for (int i = 0; i < BLOCK_SIZE; i += LANES) {
                Floats some = count < BLOCK_SIZE ? load(last + i) : load(from + i);
                const int id = block * BLOCK_SIZE + i;
                if (allowed && i < count) {
                    const Words bits = all(allowed[id / 32] >> (id % 32)) & lane_bits;
                    some = bits != 0 ? some : all(IMPOSSIBLE);
                }
                if (STORES) {
                    some = some == some ? some : all(IMPOSSIBLE);
                    store(&own_[id], some);
                }
                largest_here = larger(some, largest_here);  // never a NaN
            }
            maxima_[block] = largest(largest_here);
            greatest_ = std::max(greatest_, maxima_[block]);
        }
    }
};
