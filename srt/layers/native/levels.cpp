// Products with quantised weights; their formats are in levels.h.
//
// An output sums over its groups in their order, in one float32, whatever the number of rows: its bits do not depend on
// the rows beside it.

#include "linear.h"

namespace {

constexpr int TILE_ROWS = 4;       // 12 sums of a group and 12 of all groups fill the registers
#if LANES == 16
constexpr int FEW_ROWS = 8;        // for which unpacked levels are not stored
#else
constexpr int FEW_ROWS = 0;        // unpacking takes many instructions: compiled once a format, not once a row more
#endif
constexpr int GROUPS_AT_ONCE = 4;  // unpacked, they stay in the nearest cache while all rows are multiplied

// The groups of a block as they are packed.
template <typename Format> struct Packed {
    using Scales = typename Format::Scales;
    using Levels = typename Format::Levels;
    static constexpr int STEPS = Scales::STEPS, PAIRS_AT_ONCE = Levels::PAIRS_AT_ONCE;
    static constexpr bool HAS_MINIMUMS = Scales::HAS_MINIMUMS;

    const char* block;
    const char* factors;  // of the block
    int first_group;

    struct Group {
        const char* levels;
        const char* scales;
        const char* factors;
    };

    Group group(int index) const {
        const char* levels = block + int64_t(index) * Format::GROUP_BYTES;
        const int factor = (first_group + index) / GROUPS_A_FACTOR;
        return {levels, levels + Levels::BYTES, factors + int64_t(factor) * Scales::FACTOR_BYTES};
    }
    static Words levels(const Group& group, int vector, int first_pair, int pair) {
        return Levels::read(group.levels, first_pair).levels(vector, pair);
    }
    static Floats scale(const Group& group, int vector, int step) {
        return Scales::scale(group.scales, group.factors, vector, step);
    }
    static Floats minimum(const Group& group, int vector) {
        return Scales::minimum(group.scales, group.factors, vector);
    }
};

// A group whose levels are in bfloat16, and its scales floats.
struct UnpackedGroup {
    alignas(64) uint32_t levels[PAIRS * BLOCK];
    float scales[2 * BLOCK];
    float minimums[BLOCK];
};

template <int STEPS_, bool HAS_MINIMUMS_> struct Unpacked {
    static constexpr int STEPS = STEPS_, PAIRS_AT_ONCE = 4;
    static constexpr bool HAS_MINIMUMS = HAS_MINIMUMS_;
    using Group = UnpackedGroup;

    const UnpackedGroup* groups;

    const UnpackedGroup& group(int index) const { return groups[index]; }
    static Words levels(const UnpackedGroup& group, int vector, int first_pair, int pair) {
        Words result;
        std::memcpy(&result, group.levels + (first_pair + pair) * BLOCK + vector * LANES, sizeof result);
        return result;
    }
    static Floats scale(const UnpackedGroup& group, int vector, int step) {
        return load(group.scales + step * BLOCK + vector * LANES);
    }
    static Floats minimum(const UnpackedGroup& group, int vector) { return load(group.minimums + vector * LANES); }
};

template <typename Source> void unpack(const typename Source::Group& group, UnpackedGroup& to) {
    for (int first = 0; first < PAIRS; first += Source::PAIRS_AT_ONCE)
#pragma GCC unroll 16
        for (int pair = 0; pair < Source::PAIRS_AT_ONCE; pair++)
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++) {
                const Words words = Source::levels(group, vector, first, pair);
                std::memcpy(to.levels + (first + pair) * BLOCK + vector * LANES, &words, sizeof words);
            }
    for (int vector = 0; vector < VECTORS; vector++) {
        for (int step = 0; step < Source::STEPS; step++)
            store(to.scales + step * BLOCK + vector * LANES, Source::scale(group, vector, step));
        if constexpr (Source::HAS_MINIMUMS) store(to.minimums + vector * LANES, Source::minimum(group, vector));
    }
}

// totals += what some groups add to ROWS rows.
template <int ROWS, typename Source>
inline void add_groups(const BFloat16* inputs, int64_t stride, Source source, int num_groups, const float* input_sums,
                       int64_t sums_stride, float* totals) {
    constexpr int STEP_PAIRS = PAIRS / Source::STEPS;
    constexpr int AT_ONCE = Source::PAIRS_AT_ONCE < STEP_PAIRS ? Source::PAIRS_AT_ONCE : STEP_PAIRS;
    Floats sums[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
        for (int vector = 0; vector < VECTORS; vector++) sums[row][vector] = load(totals + row * BLOCK + vector * LANES);
    for (int index = 0; index < num_groups; index++, inputs += GROUP) {
        const auto& group = source.group(index);
#pragma GCC unroll 2
        for (int step = 0; step < Source::STEPS; step++) {
            Floats parts[ROWS][VECTORS];
#pragma GCC unroll 8
            for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
                for (int vector = 0; vector < VECTORS; vector++) parts[row][vector] = Floats{};
            for (int first = step * STEP_PAIRS; first < (step + 1) * STEP_PAIRS; first += AT_ONCE) {
#pragma GCC unroll 16
                for (int pair = 0; pair < AT_ONCE; pair++) {
                    Words weights[VECTORS];
#pragma GCC unroll 3
                    for (int vector = 0; vector < VECTORS; vector++)
                        weights[vector] = in_register(Source::levels(group, vector, first, pair));
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
                const Floats scale = Source::scale(group, vector, step);
#pragma GCC unroll 8
                for (int row = 0; row < ROWS; row++) sums[row][vector] += parts[row][vector] * scale;
            }
        }
        if constexpr (Source::HAS_MINIMUMS) {
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++) {
                const Floats minimum = Source::minimum(group, vector);
#pragma GCC unroll 8
                for (int row = 0; row < ROWS; row++)
                    sums[row][vector] += minimum * all(input_sums[row * sums_stride + index]);
            }
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
        for (int vector = 0; vector < VECTORS; vector++) store(totals + row * BLOCK + vector * LANES, sums[row][vector]);
}

// The same for any number of rows.
template <typename Source>
void add_to_rows(const BFloat16* inputs, int64_t stride, int num_rows, Source source, int num_groups,
                 const float* input_sums, int64_t sums_stride, float* totals) {
    for (int row = 0; row < num_rows; row += TILE_ROWS) {
        const float* row_sums = Source::HAS_MINIMUMS ? input_sums + row * sums_stride : nullptr;
        with_constant<TILE_ROWS>(std::min(TILE_ROWS, num_rows - row), [&](auto constant) {
            add_groups<constant>(inputs + row * stride, stride, source, num_groups, row_sums, sums_stride,
                                 totals + row * BLOCK);
        });
    }
}

template <typename Format>
void multiply(const BFloat16* inputs, int64_t stride, int num_rows, const char* packed, int num_groups, int first_group,
              const float* input_sums, float* sums) {
    using Scales = typename Format::Scales;
    using Source = Packed<Format>;
    const Source source{packed, packed + int64_t(num_groups) * Format::GROUP_BYTES, first_group};
    std::memset(sums, 0, sizeof(float) * num_rows * BLOCK);
    if constexpr (FEW_ROWS > 0) {
        if (num_rows <= FEW_ROWS)
            return add_to_rows(inputs, stride, num_rows, source, num_groups, input_sums, num_groups, sums);
    }
    UnpackedGroup unpacked[GROUPS_AT_ONCE];
    for (int first = 0; first < num_groups; first += GROUPS_AT_ONCE) {
        const int count = std::min(GROUPS_AT_ONCE, num_groups - first);
        for (int index = 0; index < count; index++) unpack<Source>(source.group(first + index), unpacked[index]);
        add_to_rows(inputs + first * GROUP, stride, num_rows, Unpacked<Scales::STEPS, Scales::HAS_MINIMUMS>{unpacked},
                    count, Scales::HAS_MINIMUMS ? input_sums + first : nullptr, num_groups, sums);
    }
}

}  // namespace

void multiply_levels(const Block& block, const BFloat16* inputs, int64_t stride, int num_rows, int num_groups,
                     int first_group, const float* input_sums, float* sums) {
    with_format(block.kind, [&](auto format) {
        multiply<decltype(format)>(inputs, stride, num_rows, block.packed, num_groups, first_group, input_sums, sums);
    });
}
