// Products with quantised weights; their formats are in levels.h.
//
// An output sums over its groups in one float32: some in their order, then what these lost, then the next, whatever the
// number of rows. Its bits do not depend on the rows beside it.

#include "linear.h"

namespace {

#if LANES == 16
constexpr int TILE_ROWS = 4;  // 12 sums of a group and 12 of all groups fill the registers
#else
constexpr int TILE_ROWS = 2;
#endif
constexpr int GROUPS_AT_ONCE = 18;  // they stay in the nearest cache while all rows are multiplied
static_assert(GROUPS_AT_ONCE <= 32, "ByteGroup::rests has a bit for each");

// Some rows by one group of a block: what is added to their sums.
template <typename Format, int ROWS> struct Tile {
    using Scales = typename Format::Scales;
    using Levels = typename Format::Levels;
    using Sums = RowSums[ROWS];
    static constexpr int STEP_QUADS = QUADS / Scales::STEPS;

    const ByteGroup* inputs;  // of the first row
    int64_t stride;           // from row to row
    const char* levels;
    const char* factors;

    void add_to(Sums& sums) const {
#pragma GCC unroll 2
        for (int step = 0; step < Scales::STEPS; step++) add_products(step, sums);
        if constexpr (Scales::HAS_MINIMUMS) add_minimums(sums);
    }

    const char* scales() const { return levels + Levels::BYTES; }
    const ByteGroup& input(int row) const { return inputs[row * stride]; }

    // Of a row's levels that share a scale, times the offset that the weights' levels have: to be taken off.
    Ints offset(int row, int step) const {
        const int16_t* sums = input(row).half_sums;
        return Ints{} + (Scales::STEPS == 1 ? sums[0] + sums[1] : sums[step]) * Levels::OFFSET;
    }

    void add_products(int step, Sums& sums) const {
        Ints products[ROWS][VECTORS];
#pragma GCC unroll 4
        for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++)
                products[row][vector] = Levels::OFFSET ? -offset(row, step) : Ints{};
#pragma GCC unroll 8
        for (int quad = step * STEP_QUADS; quad < (step + 1) * STEP_QUADS; quad++) {
            Words weights[VECTORS];
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++)
                weights[vector] = in_register(Levels::levels(levels, vector, quad));
#pragma GCC unroll 4
            for (int row = 0; row < ROWS; row++) {
                uint32_t four;
                std::memcpy(&four, input(row).levels + 4 * quad, sizeof four);
                const Words factor = all(four);
#pragma GCC unroll 3
                for (int vector = 0; vector < VECTORS; vector++)
                    products[row][vector] = add_byte_products(products[row][vector], weights[vector], factor);
            }
        }
#pragma GCC unroll 3
        for (int vector = 0; vector < VECTORS; vector++) {
            const Floats scale = Scales::scale(scales(), factors, vector, step);
#pragma GCC unroll 4
            for (int row = 0; row < ROWS; row++)
                sums[row][vector] +=
                    __builtin_convertvector(products[row][vector], Floats) * (scale * all(input(row).scale));
        }
    }

    void add_minimums(Sums& sums) const {
#pragma GCC unroll 3
        for (int vector = 0; vector < VECTORS; vector++) {
            const Floats minimum = Scales::minimum(scales(), factors, vector);
#pragma GCC unroll 4
            for (int row = 0; row < ROWS; row++) sums[row][vector] += minimum * all(input(row).sum);
        }
    }
};

// Rows, at most PART_ROWS, and the quantised weights of a block.
template <typename Format> struct Rectangle {
    const ByteGroup* inputs;
    int num_rows;
    const char* packed;
    int num_groups, first_group;

    const ByteGroup* input(int row, int group) const { return inputs + int64_t(row) * 2 * num_groups + group; }

    template <int ROWS> Tile<Format, ROWS> tile(const ByteGroup* first, int64_t stride, int group) const {
        const int64_t factor = (first_group + group) / GROUPS_A_FACTOR;
        return {first, stride, packed + int64_t(group) * Format::GROUP_BYTES,
                packed + int64_t(num_groups) * Format::GROUP_BYTES + factor * Format::Scales::FACTOR_BYTES};
    }

    // Some groups, of ROWS rows from `row` on.
    template <int ROWS> __attribute__((noinline)) void add_groups(int row, int from, int to, float* sums) const {
        RowSums totals[ROWS];
#pragma GCC unroll 4
        for (int place = 0; place < ROWS; place++) load_row(sums + (row + place) * BLOCK, totals[place]);
        for (int group = from; group < to; group++)
            tile<ROWS>(input(row, group), 2 * num_groups, group).add_to(totals);
#pragma GCC unroll 4
        for (int place = 0; place < ROWS; place++) store_row(sums + (row + place) * BLOCK, totals[place]);
    }

    // What ROWS of `rows` lost of a group.
    template <int ROWS> __attribute__((noinline)) void add_rests(const uint8_t* rows, int group, float* sums) const {
        ByteGroup rests[ROWS];
        RowSums totals[ROWS];
#pragma GCC unroll 4
        for (int place = 0; place < ROWS; place++) {
            rests[place] = *input(rows[place], num_groups + group);
            load_row(sums + rows[place] * BLOCK, totals[place]);
        }
        tile<ROWS>(rests, 1, group).add_to(totals);
#pragma GCC unroll 4
        for (int place = 0; place < ROWS; place++) store_row(sums + rows[place] * BLOCK, totals[place]);
    }

    // What the rows lost of some groups. Those that lost something of a group are multiplied side by side, wherever they are.
    void add_all_rests(int from, int to, float* sums) const {
        uint8_t rows[GROUPS_AT_ONCE][PART_ROWS];
        int counts[GROUPS_AT_ONCE] = {};
        const uint32_t here = uint32_t((uint64_t(1) << (to - from)) - 1);
        for (int row = 0; row < num_rows; row++)
            for (uint32_t rests = input(row, from)->rests & here; rests; rests &= rests - 1) {
                const int group = __builtin_ctz(rests);
                rows[group][counts[group]++] = uint8_t(row);
            }
        for (int group = from; group < to; group++) {
            const int count = counts[group - from];
            for (int first = 0; first < count; first += TILE_ROWS)
                with_constant<TILE_ROWS>(std::min(TILE_ROWS, count - first), [&](auto constant) {
                    add_rests<constant>(rows[group - from] + first, group, sums);
                });
        }
    }
};

}  // namespace

void multiply_levels(const Block& block, const ByteGroup* inputs, int num_rows, int num_groups, int first_group,
                     float* sums, const Destination& destination) {
    std::memset(sums, 0, sizeof(float) * num_rows * BLOCK);
    with_format(block.kind, [&](auto format) {
        const Rectangle<decltype(format)> rectangle{inputs, num_rows, block.packed, num_groups, first_group};
        for (int from = 0; from < num_groups; from += GROUPS_AT_ONCE) {
            const int to = std::min(from + GROUPS_AT_ONCE, num_groups);
            for (int row = 0; row < num_rows; row += TILE_ROWS)
                with_constant<TILE_ROWS>(std::min(TILE_ROWS, num_rows - row), [&](auto constant) {
                    if (to == num_groups) destination.fetch(row, constant);
                    rectangle.template add_groups<constant>(row, from, to, sums);
                });
            rectangle.add_all_rests(from, to, sums);
        }
    });
}
