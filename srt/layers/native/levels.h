// Weights that are quantised in groups of 32 inputs, as GGUF has them: w = scale · level, plus a minimum in some formats.
//
// Levels are small whole numbers. A group's inputs, in bytes, are multiplied by its levels, which is exact, and the sum
// by both scales; the minimum is multiplied by the sum of the inputs. So the weight itself is never rounded.
//
// A matrix is packed in blocks of BLOCK outputs. A group of a block is one piece of memory: the levels of all its outputs,
// then their scales, then their minimums. In the K formats these are whole numbers, and the factors that they are
// multiplied by, one for eight groups, follow the last group.

#pragma once

#include "bytes.h"

constexpr int VECTORS = 3;  // of sums in a row of a block
constexpr int BLOCK = VECTORS * LANES;

using RowSums = Floats[VECTORS];

inline void load_row(const float* from, RowSums& sums) {
#pragma GCC unroll 3
    for (int vector = 0; vector < VECTORS; vector++) sums[vector] = load(from + vector * LANES);
}

inline void store_row(float* to, const RowSums& sums) {
#pragma GCC unroll 3
    for (int vector = 0; vector < VECTORS; vector++) store(to + vector * LANES, sums[vector]);
}

constexpr int QUADS = GROUP / 4;  // four inputs, a byte each, are multiplied at once
constexpr int GROUPS_A_FACTOR = 8;

// The levels of a group, without a sign: OFFSET was added to each. Of an output, a word of 32 bits holds a part of some
// quads' levels, an input's in the byte that it has in its quad; a group is BITS words, each for all outputs. Of eight bits,
// a word has a quad. Else four words hold the lower four bits of two quads each, and the others what is higher, of as many
// quads as there is room for.
template <int BITS, int OFFSET_> struct PackedLevels {
    static constexpr int OFFSET = OFFSET_, BYTES = BITS * BLOCK * 4, HIGH_BITS = BITS - 4;

    static Words word(const char* group, int vector, int index) {
        Words result;
        std::memcpy(&result, group + (index * BLOCK + vector * LANES) * 4, sizeof result);
        return result;
    }

    // What packing puts in, put(); here it is taken out: a quad's levels, in bytes.
    static Words levels(const char* group, int vector, int quad) {
        if constexpr (BITS == 8) return word(group, vector, quad);
        const Words low = (word(group, vector, quad / 2) >> (4 * (quad % 2))) & 0x0f0f0f0fu;
        if constexpr (BITS == 4) return low;
        constexpr uint32_t HIGH = ((1u << HIGH_BITS) - 1) * 0x10101010u;
        const int shift = HIGH_BITS * quad % 8 - 4;
        const Words high = word(group, vector, 4 + HIGH_BITS * quad / 8);
        return low | ((shift < 0 ? high << -shift : high >> shift) & HIGH);
    }

    // One output's level, of `input`; `at` is its first word.
    static void put(char* at, int input, int8_t level) {
        const uint32_t value = uint32_t(level + OFFSET);
        const int quad = input / 4;
        const auto add = [&](int index, uint32_t bits, int shift) {
            uint32_t word;
            std::memcpy(&word, at + index * BLOCK * 4, sizeof word);
            word |= bits << (input % 4 * 8 + shift);
            std::memcpy(at + index * BLOCK * 4, &word, sizeof word);
        };
        if constexpr (BITS == 8) return add(quad, value, 0);
        add(quad / 2, value & 15, 4 * (quad % 2));
        if constexpr (BITS > 4) add(4 + HIGH_BITS * quad / 8, value >> 4, HIGH_BITS * quad % 8);
    }
};

// Scales and minimums as float16.
struct HalfNumbers {
    using Stored = Float16;
    static constexpr bool HAS_FACTORS = false;
    static Floats values(const Float16* from, const Float16*) { return load(from); }
};

// Whole numbers, by a factor. Their product is exact in a float.
struct ByteNumbers {
    using Stored = int8_t;
    static constexpr bool HAS_FACTORS = true;
    static Floats values(const int8_t* from, const Float16* factors) {
#if LANES == 16
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return bits_as<Floats>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))) * load(factors);
#else
        Floats result;
        for (int lane = 0; lane < LANES; lane++) result[lane] = from[lane];
        return result * load(factors);
#endif
    }
};

// What a group's levels are multiplied by: STEPS scales one after another, and perhaps a minimum.
template <typename Numbers, int STEPS_, bool HAS_MINIMUMS_> struct GroupScales {
    using Stored = typename Numbers::Stored;
    static constexpr int STEPS = STEPS_;
    static constexpr bool HAS_MINIMUMS = HAS_MINIMUMS_, HAS_FACTORS = Numbers::HAS_FACTORS;
    static constexpr int BYTES = (STEPS + HAS_MINIMUMS) * BLOCK * int(sizeof(Stored));
    static constexpr int FACTOR_BYTES = HAS_FACTORS ? (1 + HAS_MINIMUMS) * BLOCK * 2 : 0;

    static Floats scale(const char* scales, const char* factors, int vector, int step) {
        return Numbers::values(reinterpret_cast<const Stored*>(scales) + step * BLOCK + vector * LANES,
                               reinterpret_cast<const Float16*>(factors) + vector * LANES);
    }
    static Floats minimum(const char* scales, const char* factors, int vector) {
        return Numbers::values(reinterpret_cast<const Stored*>(scales) + STEPS * BLOCK + vector * LANES,
                               reinterpret_cast<const Float16*>(factors) + BLOCK + vector * LANES);
    }
};

// How a matrix may be packed. Where there is a minimum, levels begin at 0; else 0 is in their middle.
template <int BITS_, typename Scales_> struct Format {
    static constexpr int BITS = BITS_;
    using Scales = Scales_;
    using Levels = PackedLevels<BITS, Scales::HAS_MINIMUMS ? 0 : 1 << (BITS - 1)>;
    static constexpr int GROUP_BYTES = Levels::BYTES + Scales::BYTES;

    static int num_factors(int num_groups, int first_group) {
        return (first_group + num_groups + GROUPS_A_FACTOR - 1) / GROUPS_A_FACTOR;
    }
    static int64_t block_bytes(int num_groups, int first_group) {
        return int64_t(num_groups) * GROUP_BYTES + int64_t(num_factors(num_groups, first_group)) * Scales::FACTOR_BYTES;
    }
};

// The numbers are those of srt/layers/native/library.py.
enum MatrixKind : int32_t { PAIRS_OF_BFLOAT16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K };

// Calls `body` with a value of the kind's Format.
template <typename Body> inline auto with_format(int32_t kind, const Body& body) {
    using Scale = GroupScales<HalfNumbers, 1, false>;
    using ScaleAndMinimum = GroupScales<HalfNumbers, 1, true>;
    using NumberedScaleAndMinimum = GroupScales<ByteNumbers, 1, true>;
    using TwoNumberedScales = GroupScales<ByteNumbers, 2, false>;
    switch (kind) {
        case Q4_0: return body(Format<4, Scale>());
        case Q4_1: return body(Format<4, ScaleAndMinimum>());
        case Q5_0: return body(Format<5, Scale>());
        case Q5_1: return body(Format<5, ScaleAndMinimum>());
        case Q8_0: return body(Format<8, Scale>());
        case Q4_K: return body(Format<4, NumberedScaleAndMinimum>());
        case Q5_K: return body(Format<5, NumberedScaleAndMinimum>());
        default: return body(Format<6, TwoNumberedScales>());
    }
}
