// Who wins the race for the next token: srt/sampling/exponential_race.py; the noise is in seeded_noise.py.
//
// That tells the least noise of a block before that of its tokens. So a block whose likeliest token would come too late
// with that noise is passed over, and that are nearly all.

#pragma once

#include "logit_row.h"

#include <climits>
#include <cstdint>

constexpr uint32_t TOKEN_STEP = 0x9E3779B1, FIRST_BLOCK = 1u << 31;

inline uint64_t mix_64(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

inline uint64_t noise_key(uint64_t seed, uint64_t position) {
    return mix_64(mix_64(seed) + (position + 1) * 0x9E3779B97F4A7C15u);
}

// One word or many.
template <typename Bits> inline Bits mix_32(Bits bits) {
    bits ^= bits >> 16;
    bits *= 0x7FEB352Du;
    bits ^= bits >> 15;
    bits *= 0x846CA68Bu;
    return bits ^ bits >> 16;
}

inline double exponential_noise(uint32_t bits) {
    return -std::log1p(-double(std::min(float(bits) * 0x1p-32f + 0x1p-33f, 1.0f - 0x1p-24f)));
}

// The binary logarithm of bits · 2^-32 or a little less, at most 0.09. The noise is greater than that number.
inline Floats rough_logarithm(Words bits) {
    const Ints float_bits = bits_as<Ints>(__builtin_convertvector(bits, Floats));
    return __builtin_convertvector(float_bits, Floats) * 0x1p-23f - (127 + 32.0f);
}

// The head of the ranking, likeliest first and equal logits by id: what is above `last`, and of its equals the ids below
// `tie_end`.
struct Head {
    float last = -FLT_MAX;
    int tie_end = INT_MAX;

    bool is_shorter_than(const Head& other) const {
        return last != other.last ? last > other.last : tie_end < other.tie_end;
    }
    bool holds(float logit, int id) const { return logit > last || (logit == last && id < tie_end); }
    Ints holds(Floats logits, Words ids) const {
        return (logits > last) | ((logits == last) & (ids < uint32_t(tie_end)));
    }
};

template <typename Row> class Race {
  public:
    explicit Race(const Row& row) : row_(row) {}

    void prepare(float temperature, uint64_t key) {
        temperature_ = temperature;
        slope_ = float(1.4426950408889634 / temperature);
        key_ = key;
        words_.resize(row_.num_blocks() + LANES);
        soonest_.resize(row_.num_blocks() + LANES);
        for (int block = 0; block < row_.num_blocks(); block += LANES) {
            const Words bits = words_from(FIRST_BLOCK + uint32_t(block));
            std::memcpy(&words_[block], &bits, sizeof bits);
            store(&soonest_[block], rough_logarithm(bits) - 6 + lateness(row_.maxima(block)));  // a 64th
        }
    }

    // The first of `head` to arrive.
    int find_winner(const Head& head) {
        winner_ = -1;
        earliest_ = INFINITY;
        limit_ = FLT_MAX;
        const int favourite = find_favourite(head);
        run(favourite, head);
        for (int block = 0; block < row_.num_blocks(); block += LANES)
            each_lane((load(&soonest_[block]) <= limit_) & (row_.maxima(block) >= head.last), [&](int lane) {
                if (soonest_[block + lane] <= limit_ && block + lane != favourite) run(block + lane, head);
                return true;
            });
        return winner_;
    }

  private:
    const Row& row_;
    float temperature_ = 1, slope_ = 1;
    uint64_t key_ = 0;
    std::vector<uint32_t> words_;  // of each block
    std::vector<float> soonest_;   // log2 of an arrival that none of the block comes before
    int winner_ = -1;
    double earliest_ = INFINITY;
    float limit_ = FLT_MAX;  // log2 of that, or a little more

    Words words_from(uint32_t first) const {
        const Words steps = (lane_numbers() + first) * TOKEN_STEP;
        return mix_32(mix_32(steps + uint32_t(key_)) + uint32_t(key_ >> 32));
    }

    // log2 of what arrivals are of noise.
    Floats lateness(Floats logits) const { return (row_.greatest() - logits) * slope_; }

    // The block that may be the soonest: when it has run, few others are left.
    int find_favourite(const Head& head) const {
        Floats least = all(INFINITY);
        Ints places{};
        for (int block = 0; block < row_.num_blocks(); block += LANES) {
            const Floats soonest = load(&soonest_[block]);
            const Ints is_sooner = (soonest < least) & (row_.maxima(block) >= head.last);
            least = is_sooner ? soonest : least;
            places = is_sooner ? bits_as<Ints>(all(uint32_t(block))) : places;
        }
        int lane = 0;
        for (int other = 1; other < LANES; other++)
            if (least[other] < least[lane]) lane = other;
        return std::min(places[lane] + lane, row_.num_blocks() - 1);
    }

    void run(int block, const Head& head) {
        const int start = block * BLOCK_SIZE, quietest = start + int(mix_32(words_[block]) >> 26);
        const float logit = row_.one_at(quietest);
        if (soonest_[block] + (row_.maxima(block)[0] - logit) * slope_ <= limit_) enter(quietest, logit, 0, head);
        for (int id = start; id < start + BLOCK_SIZE; id += LANES) {
            const Floats some = row_.at(id);
            const Words bits = words_from(uint32_t(id));
            const Ints is_early = (rough_logarithm(bits) + lateness(some) <= limit_) & (some >= head.last);
            each_lane(is_early, [&](int lane) {
                if (id + lane != quietest) enter(id + lane, some[lane], exponential_noise(bits[lane]), head);
                return true;
            });
        }
    }

    // With its noise over the least of its block.
    void enter(int id, float logit, double noise, const Head& head) {
        if (!head.holds(logit, id)) return;
        noise += exponential_noise(words_[id / BLOCK_SIZE]) / BLOCK_SIZE;
        const double arrival = noise * std::exp(-double((logit - row_.greatest()) / temperature_));
        if (!(arrival < earliest_)) return;
        earliest_ = arrival;
        winner_ = id;
        limit_ = float(std::log2(arrival)) + 0.02f;
    }
};
