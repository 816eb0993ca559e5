// Who wins the race for the next token: srt/sampling/exponential_race.py; the noise is in seeded_noise.py.

#pragma once

#include "cuts.h"

#include <cstdint>

constexpr uint32_t TOKEN_STEP = 0x9E3779B1;

inline uint64_t mix_64(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

inline uint64_t noise_key(uint64_t seed, uint64_t position) {
    return mix_64(mix_64(seed) + (position + 1) * 0x9E3779B97F4A7C15u);
}

inline Words mix_32(Words bits) {
    bits ^= bits >> 16;
    bits *= 0x7FEB352Du;
    bits ^= bits >> 15;
    bits *= 0x846CA68Bu;
    return bits ^ bits >> 16;
}

inline double arrival_of(uint32_t bits, float below) {
    const float u = std::min(float(bits) * 0x1p-32f + 0x1p-33f, 1.0f - 0x1p-24f);
    return -std::log1p(-double(u)) * std::exp(-double(below));
}

// The noise of a token is at least u, and so is known to be too late for most tokens from a rough logarithm.
inline int race(const LogitRow& row, const Head& head, float temperature, uint64_t key) {
    const Words lane_steps = lane_numbers() * TOKEN_STEP;
    const float slope = float(1.4426950408889634 / temperature);
    float base = 200;  // log2 of the earliest arrival · 2^32, a float's bias of 127 added: nobody has arrived
    float least = head.last;  // of those that can still win
    double earliest = INFINITY;
    const float greatest = row.greatest();
    int winner = -1;
    row.each_from(least, [&](int id, Floats some) {
        Words bits = mix_32(lane_steps + (uint32_t(id) * TOKEN_STEP + uint32_t(key)));
        bits = mix_32(bits + uint32_t(key >> 32));
        // A float's bits are its logarithm, at most 0.09 too small.
        const Ints rough = bits_as<Ints>(__builtin_convertvector(bits, Floats));
        const Floats limits = larger((some - greatest) * slope + base, all(0.0f));
        const Ints is_early = rough <= __builtin_convertvector(limits * 0x1p23f, Ints);
        if (!any(is_early & (some >= head.last))) return;
        for (int lane = 0; lane < LANES; lane++) {
            const float logit = some[lane];
            if (!is_early[lane] || !(logit >= head.last) || (logit == head.last && id + lane >= head.tie_end)) continue;
            const double arrival = arrival_of(bits[lane], (logit - greatest) / temperature);
            if (arrival < earliest) {
                earliest = arrival;
                winner = id + lane;
                base = float(std::log2(earliest)) + (32 + 127 + 0.02f);
                // u · 2^32 is at least 1/2.
                least = std::max(least, greatest - (base - 125) / slope);
            }
        }
    });
    return winner;
}
