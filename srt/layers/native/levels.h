// Products with a weight that is quantised in groups of 32 inputs: w = scale · level, plus a minimum with four bits.
//
// Levels are small whole numbers, and exact in bfloat16. A group's inputs are multiplied by its levels, and the sum by the
// scale; the minimum is multiplied by the sum of the inputs. So the weight itself is never rounded.
//
// A group of a block is one piece of memory: the levels of all its outputs, then their scales, then their minimums.

#pragma once

#include "simd.h"

#include <vector>

constexpr int VECTORS = 3;  // of sums in a row of a block
constexpr int BLOCK = VECTORS * LANES;
constexpr int GROUP = 32;  // inputs that share a scale

// Eight levels in a 32-bit word: those of even inputs in the lower half, of odd ones in the upper.
struct FourBits {
    static constexpr bool HAS_MINIMUMS = true;
    static constexpr bool UNPACKS_ONCE = false;  // a table look-up a pair costs no more than storing it
    static constexpr int PAIRS_AT_ONCE = 4;
    static constexpr int LEVEL_BYTES = GROUP / 8 * BLOCK * 4;
    static constexpr int GROUP_BYTES = LEVEL_BYTES + 2 * BLOCK * 2;

    Words words[VECTORS];

    void read(const char* group, int first_pair) {
        for (int vector = 0; vector < VECTORS; vector++)
            std::memcpy(&words[vector], group + (first_pair / PAIRS_AT_ONCE * BLOCK + vector * LANES) * 4, sizeof(Words));
    }

    // The pair's levels in bfloat16.
    Words levels(int vector, int pair) const {
#if LANES == 16
        // Bit 4 belongs to the next level: the table is there twice.
        alignas(64) static constexpr uint16_t table[32] = {
            0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120,
            0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
            0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170};
        const __m512i shifted = _mm512_srli_epi16(bits_as<__m512i>(words[vector]), 4 * pair);
        return bits_as<Words>(_mm512_permutexvar_epi16(shifted, _mm512_load_si512(table)));
#else
        return pair_of(bits_as<Ints>((words[vector] >> (4 * pair)) & 15u),
                       bits_as<Ints>((words[vector] >> (16 + 4 * pair)) & 15u));
#endif
    }

    static Words pair_of(Ints even, Ints odd) {
        return (bits_as<Words>(__builtin_convertvector(even, Floats)) >> 16) |
               bits_as<Words>(__builtin_convertvector(odd, Floats));
    }

    static Floats scale(const char* group, int vector) {
        return load(reinterpret_cast<const Float16*>(group + LEVEL_BYTES) + vector * LANES);
    }
    static Floats minimum(const char* group, int vector) {
        return load(reinterpret_cast<const Float16*>(group + LEVEL_BYTES) + BLOCK + vector * LANES);
    }
};

// Two signed bytes a pair.
struct EightBits {
    static constexpr bool HAS_MINIMUMS = false;
    static constexpr bool UNPACKS_ONCE = true;
    static constexpr int PAIRS_AT_ONCE = 1;
    static constexpr int LEVEL_BYTES = GROUP * BLOCK;
    static constexpr int GROUP_BYTES = LEVEL_BYTES + BLOCK * 4;

    const char* bytes;

    void read(const char* group, int first_pair) { bytes = group + first_pair * 2 * BLOCK; }

    Words levels(int vector, int) const {
        const char* from = bytes + vector * LANES * 2;
#if USE_BF16_DOT
        const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)from)));
        const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(from + 16))));
        return bits_as<Words>(_mm512_cvtne2ps_pbh(high, low));
#else
        uint16_t pairs[LANES];
        std::memcpy(pairs, from, sizeof pairs);
        Ints even, odd;
        for (int lane = 0; lane < LANES; lane++) even[lane] = int8_t(pairs[lane]), odd[lane] = int8_t(pairs[lane] >> 8);
        return FourBits::pair_of(even, odd);
#endif
    }

    static Floats scale(const char* group, int vector) {
        return load(reinterpret_cast<const float*>(group + LEVEL_BYTES) + vector * LANES);
    }
    static Floats minimum(const char*, int) { return Floats{}; }
};

// Levels that many rows will want: unpacked once, in the nearest cache.
struct Unpacked {
    static constexpr int PAIRS_AT_ONCE = 4;

    const uint32_t* words;

    void read(const char* unpacked, int first_pair) {
        words = reinterpret_cast<const uint32_t*>(unpacked) + first_pair * BLOCK;
    }
    Words levels(int vector, int pair) const {
        Words result;
        std::memcpy(&result, words + pair * BLOCK + vector * LANES, sizeof result);
        return result;
    }
};

template <typename Levels> inline void unpack(const char* group, uint32_t* to) {
    for (int first = 0; first < GROUP / 2; first += Levels::PAIRS_AT_ONCE) {
        Levels levels;
        levels.read(group, first);
#pragma GCC unroll 4
        for (int pair = 0; pair < Levels::PAIRS_AT_ONCE; pair++)
            for (int vector = 0; vector < VECTORS; vector++) {
                const Words words = levels.levels(vector, pair);
                std::memcpy(to + (first + pair) * BLOCK + vector * LANES, &words, sizeof words);
            }
    }
}

// totals += one group's share. `source` is what Source reads: the group itself, or its levels unpacked.
template <int ROWS, typename Source, typename Levels>
inline void add_group(const BFloat16* inputs, int64_t stride, const char* source, const char* group,
                      const float* input_sums, int64_t num_groups, float* totals) {
    Floats parts[ROWS][VECTORS];
    for (int row = 0; row < ROWS; row++)
        for (int vector = 0; vector < VECTORS; vector++) parts[row][vector] = Floats{};
    for (int first = 0; first < GROUP / 2; first += Source::PAIRS_AT_ONCE) {
        Source levels;
        levels.read(source, first);
#pragma GCC unroll 4
        for (int pair = 0; pair < Source::PAIRS_AT_ONCE; pair++) {
            Words weights[VECTORS];
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++) weights[vector] = levels.levels(vector, pair);
#pragma GCC unroll 8
            for (int row = 0; row < ROWS; row++) {
                uint32_t input;
                std::memcpy(&input, inputs + row * stride + 2 * (first + pair), sizeof input);
                const Words factor = all(input);
#pragma GCC unroll 3
                for (int vector = 0; vector < VECTORS; vector++)
                    parts[row][vector] = add_products(parts[row][vector], weights[vector], factor);
            }
        }
    }
#pragma GCC unroll 3
    for (int vector = 0; vector < VECTORS; vector++) {
        const Floats scale = Levels::scale(group, vector), minimum = Levels::minimum(group, vector);
#pragma GCC unroll 8
        for (int row = 0; row < ROWS; row++) {
            float* at = totals + row * BLOCK + vector * LANES;
            Floats total = load(at) + parts[row][vector] * scale;
            if constexpr (Levels::HAS_MINIMUMS) total += minimum * all(input_sums[row * num_groups]);
            store(at, total);
        }
    }
}

// Some rows of inputs by a block's outputs: num_rows · BLOCK sums.
template <int ROWS_AT_ONCE, typename Levels>
inline void multiply_levels(const BFloat16* inputs, int64_t stride, int num_rows, const char* packed, int num_groups,
                            const float* input_sums, float* sums) {
    alignas(64) uint32_t unpacked[GROUP / 2 * BLOCK];
    std::memset(sums, 0, sizeof(float) * num_rows * BLOCK);
    for (int group = 0; group < num_groups; group++, packed += Levels::GROUP_BYTES) {
        const bool unpacks = Levels::UNPACKS_ONCE && num_rows > ROWS_AT_ONCE;
        if (unpacks) unpack<Levels>(packed, unpacked);
        for (int row = 0; row < num_rows; row += ROWS_AT_ONCE) {
            const int rows = num_rows - row < ROWS_AT_ONCE ? num_rows - row : ROWS_AT_ONCE;
            const BFloat16* from = inputs + row * stride + group * GROUP;
            const float* group_sums = input_sums + (Levels::HAS_MINIMUMS ? int64_t(row) * num_groups + group : 0);
            with_constant<ROWS_AT_ONCE>(rows, [&](auto constant) {
                if (unpacks)
                    add_group<constant, Unpacked, Levels>(from, stride, reinterpret_cast<const char*>(unpacked), packed,
                                                          group_sums, num_groups, sums + row * BLOCK);
                else
                    add_group<constant, Levels, Levels>(from, stride, packed, packed, group_sums, num_groups,
                                                        sums + row * BLOCK);
            });
        }
    }
}

// (rows, groups) sums of inputs, for the minimums. To be called by every thread of a team; ends with a barrier, unless
// the rows are so few that each thread computes them for itself.
inline const float* sum_groups_together(const BFloat16* inputs, int64_t stride, int num_rows, int num_groups) {
    static thread_local std::vector<float> own;
    const size_t size = size_t(num_rows) * num_groups;
    const bool is_shared = num_rows > 8;
    float* to;
    if (is_shared) {
#pragma omp single copyprivate(to)
        {
            if (own.size() < size) own.resize(size);
            to = own.data();
        }
    } else {
        if (own.size() < size) own.resize(size);
        to = own.data();
    }
    const auto sum_row = [&](int64_t row) {
        for (int group = 0; group < num_groups; group++) {
            Floats total{};
            for (int index = 0; index < GROUP; index += LANES) total += load(inputs + row * stride + group * GROUP + index);
            to[row * num_groups + group] = sum(total);
        }
    };
    if (is_shared) {
#pragma omp for schedule(static)
        for (int row = 0; row < num_rows; row++) sum_row(row);
    } else {
        for (int row = 0; row < num_rows; row++) sum_row(row);
    }
    return to;
}
