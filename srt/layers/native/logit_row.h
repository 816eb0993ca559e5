// One row of logits as the choice of a token sees it, in blocks whose greatest logits are known: who asks for large
// logits skips most of the row.

#pragma once

#include "simd.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

constexpr int BLOCK_SIZE = 64;  // logits
constexpr float IMPOSSIBLE = -INFINITY;

// body(lane) for those that are true, in order, until it returns false; whether it never did.
template <typename Body> inline bool each_lane(Ints truths, const Body& body) {
#if LANES == 16
    unsigned bits = _mm512_test_epi32_mask(bits_as<__m512i>(truths), bits_as<__m512i>(truths));
    for (; bits; bits &= bits - 1)
        if (!body(__builtin_ctz(bits))) return false;
#else
    uint64_t words[LANES / 2], whole = 0;
    std::memcpy(words, &truths, sizeof words);
    for (uint64_t word : words) whole |= word;
    if (!whole) return true;
    for (int lane = 0; lane < LANES; lane++)
        if (truths[lane] && !body(lane)) return false;
#endif
    return true;
}

inline int count(Ints truths) {
#if LANES == 16
    return __builtin_popcount(_mm512_test_epi32_mask(bits_as<__m512i>(truths), bits_as<__m512i>(truths)));
#else
    int result = 0;
    for (int lane = 0; lane < LANES; lane++) result -= truths[lane];
    return result;
#endif
}

inline Words lane_numbers() {
    Words result;
    for (int lane = 0; lane < LANES; lane++) result[lane] = uint32_t(lane);
    return result;
}

// What is not allowed is impossible, and so is what would stand behind the end of the last block. A NaN may stand
// there: it compares false with everything.
template <typename Logit> class LogitRow {
  public:
    // `allowed`: a bit for each token; null: all are. Both must stay where they are.
    void read(const Logit* logits, int size, const uint32_t* allowed) {
        logits_ = logits;
        allowed_ = allowed;
        num_blocks_ = (size + BLOCK_SIZE - 1) / BLOCK_SIZE;
        num_whole_ = size / BLOCK_SIZE * BLOCK_SIZE;
        std::fill(rest_, rest_ + BLOCK_SIZE, IMPOSSIBLE);
        for (int id = num_whole_; id < size; id++)
            if (!allowed || allowed[id / 32] >> (id % 32) & 1) rest_[id - num_whole_] = to_float(logits[id]);
        maxima_.resize(num_blocks_ + LANES);
        std::fill_n(&maxima_[num_blocks_], LANES, IMPOSSIBLE);
        greatest_ = allowed ? find_maxima<true>() : find_maxima<false>();
    }

    // From here on what is infinite is as likely as a float can be.
    void make_finite() {
        greatest_ = std::min(greatest_, FLT_MAX);
        for (float& logit : maxima_) logit = std::min(logit, FLT_MAX);
    }

    float greatest() const { return greatest_; }
    int num_blocks() const { return num_blocks_; }
    // In whole blocks.
    int size() const { return num_blocks_ * BLOCK_SIZE; }
    // The greatest of each block; behind the last come impossible ones.
    const std::vector<float>& all_maxima() const { return maxima_; }
    // Of LANES blocks.
    Floats maxima(int block) const { return load(&maxima_[block]); }

    // The lowest id of the greatest logit.
    int first_of_greatest() const {
        int id = 0;
        while (maxima_[id / BLOCK_SIZE] != greatest_) id += BLOCK_SIZE;
        while (exact<true>(id / LANES * LANES)[id % LANES] != greatest_) id++;
        return id;
    }

    // Of LANES tokens, finite or impossible.
    Floats at(int id) const {
        const Floats some = exact<true>(id);
        return all(FLT_MAX) < some ? all(FLT_MAX) : some;  // a NaN stays one
    }
    float one_at(int id) const { return at(id / LANES * LANES)[id % LANES]; }

    // body(id of the first) for the blocks that reach `least`, in order, until it returns false.
    template <typename Body> void each_block_from(float least, const Body& body) const {
        for (int block = 0; block < num_blocks_; block += LANES) {
            const Ints reach = (maxima(block) >= least) & (maxima(block) > IMPOSSIBLE);
            if (!each_lane(reach, [&](int lane) { return body((block + lane) * BLOCK_SIZE); })) return;
        }
    }

  private:
    const Logit* logits_ = nullptr;
    const uint32_t* allowed_ = nullptr;
    int num_blocks_ = 0, num_whole_ = 0;  // the latter: logits in whole blocks
    std::vector<float> maxima_;           // of each block
    float rest_[BLOCK_SIZE];              // the logits of a last block that is not whole
    float greatest_ = 0;

    template <bool MAY_BE_MASKED> Floats exact(int id) const {
        if (id >= num_whole_) return load(rest_ + (id - num_whole_));
        const Floats some = load(logits_ + id);
        if (!MAY_BE_MASKED || !allowed_) return some;
        const Words bits = all(allowed_[id / 32] >> (id % 32)) & (all(1u) << lane_numbers());
        return bits != 0 ? some : all(IMPOSSIBLE);
    }

    template <bool MAY_BE_MASKED> float find_maxima() {
        float greatest = IMPOSSIBLE;
        for (int block = 0; block < num_blocks_; block++) {
            Floats largest_here = all(IMPOSSIBLE);
            for (int i = 0; i < BLOCK_SIZE; i += LANES)
                largest_here = larger(exact<MAY_BE_MASKED>(block * BLOCK_SIZE + i), largest_here);  // never a NaN
            maxima_[block] = largest(largest_here);
            greatest = std::max(greatest, maxima_[block]);
        }
        return greatest;
    }
};
