// Inputs in bytes, for products with quantised weights: whole numbers by whole numbers.
//
// A group of 32 inputs is rounded to −127 … 127 of its greatest, as llama.cpp does it, so an input loses at most 1/254 of
// that. Nearly all that a row loses is lost in few groups: those that hold one of the very large values that models have.
// What these lose is rounded to bytes once more, and multiplied, too.

#pragma once

#include "simd.h"

constexpr int GROUP = 32;  // inputs that share a scale
// Large is a group whose greatest is so many times the row's mean of them: a twentieth of SmolLM2's groups in its layers.
// Of a rank's part of a row, it is the part's mean.
constexpr float LARGE = 3;
constexpr float LARGE_HEAD = 1.5;  // likely tokens differ by little

// value = scale · level.
struct ByteGroup {
    int8_t levels[GROUP];
    float scale;
    float sum;             // of the values, as they are rounded
    int16_t half_sums[2];  // of the levels
    uint32_t rests;        // a bit for this group, then one for each behind it: whether what it loses is a group, too
};

constexpr int GROUP_VECTORS = GROUP / LANES;

// Levels from −127 to 127, and the sums of both halves.
inline void write_levels(const Ints (&levels)[GROUP_VECTORS], ByteGroup& to) {
#if USE_BYTE_DOT
    // In a register: what was stored in two pieces could not be loaded as one before it has reached the cache.
    const __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(bits_as<__m512i>(levels[1])),
                                           _mm512_cvtepi32_epi8(bits_as<__m512i>(levels[0])));
    std::memcpy(to.levels, &bytes, sizeof bytes);
    const __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
    const __m256i pairs = _mm256_hadd_epi32(fours, fours), halves = _mm256_hadd_epi32(pairs, pairs);
    to.half_sums[0] = int16_t(_mm256_extract_epi32(halves, 0));
    to.half_sums[1] = int16_t(_mm256_extract_epi32(halves, 4));
#else
    to.half_sums[0] = to.half_sums[1] = 0;
    for (int input = 0; input < GROUP; input++) {
        const int32_t level = levels[input / LANES][input % LANES];
        to.levels[input] = int8_t(level);
        to.half_sums[input / (GROUP / 2)] += int16_t(level);
    }
#endif
}

using GroupValues = Floats[GROUP_VECTORS];

inline void load_group(const BFloat16* from, GroupValues& values) {
    for (int index = 0; index < GROUP_VECTORS; index++) values[index] = load(from + index * LANES);
}

// By their bits, NaN is greater than infinity, and that than all others: what is not finite makes its row's outputs so.
inline float greatest_magnitude(const GroupValues& values) {
    Words greatest{};
    for (const Floats& some : values) {
        const Words magnitudes = bits_as<Words>(some) & 0x7fffffffu;
        greatest = magnitudes > greatest ? magnitudes : greatest;
    }
    return bits_as<float>(largest(greatest));
}

// Rounds a group; `values` becomes what is lost.
inline void round_group(GroupValues& values, float greatest, ByteGroup& to) {
    to.scale = greatest * (1.0f / 127);
    const float inverse = greatest > 1e-30f ? 127 / greatest : 0;  // it would be infinite, and nothing is lost
    Ints levels[GROUP_VECTORS];
    for (int index = 0; index < GROUP_VECTORS; index++) {
        // Added to it, the lowest bits of a float are the nearest whole number.
        constexpr float WHOLE = 0x1.8p23f;
        const Floats shifted = values[index] * inverse + WHOLE;
        levels[index] = bits_as<Ints>(shifted) - bits_as<int32_t>(WHOLE);
        values[index] -= (shifted - WHOLE) * to.scale;
    }
    write_levels(levels, to);
    to.sum = to.scale * float(to.half_sums[0] + to.half_sums[1]);
}

// One row: its groups, then as many places for what they lose.
inline void round_row(const BFloat16* values, int num_groups, float large, ByteGroup* to) {
    GroupValues some;
    float total = 0;
    for (int group = 0; group < num_groups; group++) {
        load_group(values + group * GROUP, some);
        total += to[group].scale = greatest_magnitude(some);
    }
    const float limit = large * total / float(num_groups);
    uint32_t rests = 0;
    for (int group = num_groups - 1; group >= 0; group--) {
        load_group(values + group * GROUP, some);
        const float greatest = to[group].scale;
        round_group(some, greatest, to[group]);
        rests = rests << 1 | (greatest > limit);
        to[group].rests = rests;
        if (rests & 1) round_group(some, greatest_magnitude(some), to[num_groups + group]);
    }
}
