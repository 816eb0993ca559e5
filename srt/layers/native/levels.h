// Weights that are quantised in groups of 32 inputs, as GGUF has them: w = scale · level, plus a minimum in some formats.
//
// Levels are small whole numbers, and exact in bfloat16. A group's inputs are multiplied by its levels, and the sum by the
// scale; the minimum is multiplied by the sum of the inputs. So the weight itself is never rounded.
//
// A matrix is packed in blocks of BLOCK outputs. A group of a block is one piece of memory: the levels of all its outputs,
// then their scales, then their minimums. In the K formats these are whole numbers, and the factors that they are
// multiplied by, one for eight groups, follow the last group.

#pragma once

#include "simd.h"

constexpr int VECTORS = 3;  // of sums in a row of a block
constexpr int BLOCK = VECTORS * LANES;
constexpr int GROUP = 32;  // inputs that share a minimum, and in all formats but Q6_K a scale
constexpr int PAIRS = GROUP / 2;
constexpr int GROUPS_A_FACTOR = 8;

typedef uint16_t Shorts __attribute__((vector_size(LANES * 4)));  // an even input's value, then an odd one's, …

constexpr uint16_t whole_bfloat16(int value) {
    const int magnitude = value < 0 ? -value : value;
    int exponent = 0;
    while (magnitude >> (exponent + 1)) exponent++;
    if (!magnitude) return 0;
    return uint16_t((value < 0 ? 0x8000 : 0) | (127 + exponent) << 7 | ((magnitude << (7 - exponent)) & 0x7f));
}

// As long as the longest look-up, which takes no notice of higher bits: they may be anything.
template <int BITS, int OFFSET> struct LevelTable {
    alignas(64) uint16_t values[64] = {};
    constexpr LevelTable() {
        for (int index = 0; index < 64; index++) values[index] = whole_bfloat16(index % (1 << BITS) - OFFSET);
    }
};

// The 16 pairs of a group, each in BITS bits. Of an output, a word of 32 bits holds even inputs in its lower half, odd
// ones in its upper; a group is BITS words, each for all outputs. OFFSET is what was added so that no level is negative.
template <int BITS, int OFFSET> struct PackedLevels {
    static constexpr int BYTES = BITS * BLOCK * 4;
    static constexpr int PAIRS_AT_ONCE = BITS == 4 ? 4 : BITS == 5 ? 16 : 8;
    static constexpr LevelTable<BITS, OFFSET> table{};

    const char* from;

    static PackedLevels read(const char* group, int first_pair) {
        return {group + first_pair * BITS / 16 * BLOCK * 4};
    }

    Shorts word(int vector, int index) const {
        Shorts result;
        std::memcpy(&result, from + (index * BLOCK + vector * LANES) * 4, sizeof result);
        return result;
    }

    // What packing puts in, put(); here it is taken out.
    Shorts index(int vector, int pair) const {
        if constexpr (BITS == 4) {
            return word(vector, pair / 4) >> (4 * (pair % 4));
        } else if constexpr (BITS == 5) {
            if (pair < 15) return word(vector, pair / 3) >> (5 * (pair % 3));
            // The fifteen leave a bit in each word.
            return (word(vector, 0) >> 15) | ((word(vector, 1) >> 14) & 2) | ((word(vector, 2) >> 13) & 4) |
                   ((word(vector, 3) >> 12) & 8) | ((word(vector, 4) >> 11) & 16);
        } else {
            // Two in each of three words, which leave four bits each: for two more.
            if (pair < 6) return word(vector, pair / 2) >> (6 * (pair % 2));
            if (pair == 6) return (word(vector, 0) >> 12) | ((word(vector, 1) >> 8) & 0x30);
            return (word(vector, 2) >> 12) | ((word(vector, 1) >> 10) & 0x30);
        }
    }

    // The pair's levels in bfloat16.
    Words levels(int vector, int pair) const {
        const Shorts at = index(vector, pair);
#if LANES == 16
        const __m512i low = _mm512_load_si512(table.values), high = _mm512_load_si512(table.values + 32);
        if constexpr (BITS < 6) return bits_as<Words>(_mm512_permutexvar_epi16(bits_as<__m512i>(at), low));
        return bits_as<Words>(_mm512_permutex2var_epi16(low, bits_as<__m512i>(at), high));
#else
        const Ints both = bits_as<Ints>(at & uint16_t((1 << BITS) - 1));
        return pair_of((both & 0xffff) - OFFSET, (both >> 16) - OFFSET);
#endif
    }

    static Words pair_of(Ints even, Ints odd) {
        return (bits_as<Words>(__builtin_convertvector(even, Floats)) >> 16) |
               bits_as<Words>(__builtin_convertvector(odd, Floats));
    }

    // One output's level, of `input`; `at` is its first word.
    static void put(char* at, int input, int8_t level) {
        const uint32_t value = uint32_t(level + OFFSET), half = input % 2 * 16;
        const int pair = input / 2;
        const auto add = [&](int index, uint32_t bits, int shift) {
            uint32_t word;
            std::memcpy(&word, at + index * BLOCK * 4, sizeof word);
            word |= bits << (half + shift);
            std::memcpy(at + index * BLOCK * 4, &word, sizeof word);
        };
        if constexpr (BITS == 4) {
            add(pair / 4, value, 4 * (pair % 4));
        } else if constexpr (BITS == 5) {
            if (pair < 15) return add(pair / 3, value, 5 * (pair % 3));
            for (int bit = 0; bit < 5; bit++) add(bit, value >> bit & 1, 15);
        } else {
            const int first = pair / 8 * 3, rest = pair % 8;
            if (rest < 6) return add(first + rest / 2, value, 6 * (rest % 2));
            add(first + (rest == 6 ? 0 : 2), value & 15, 12);
            add(first + 1, value >> 4, rest == 6 ? 12 : 14);
        }
    }
};

// Two signed bytes a pair.
template <> struct PackedLevels<8, 0> {
    static constexpr int BYTES = GROUP * BLOCK;
    static constexpr int PAIRS_AT_ONCE = 1;

    const char* bytes;

    static PackedLevels read(const char* group, int first_pair) { return {group + first_pair * 2 * BLOCK}; }

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
        return PackedLevels<4, 0>::pair_of(even, odd);
#endif
    }

    static void put(char* at, int input, int8_t level) { at[input / 2 * 2 * BLOCK + input % 2] = level; }
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
    using Levels = PackedLevels<BITS, Scales::HAS_MINIMUMS || BITS == 8 ? 0 : 1 << (BITS - 1)>;
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

inline bool has_minimums(int32_t kind) {
    return kind != PAIRS_OF_BFLOAT16 &&
           with_format(kind, [](auto format) { return decltype(format)::Scales::HAS_MINIMUMS; });
}
