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
    using Sums = Floats[ROWS][VECTORS];
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

    // As a ByteGroup has them: of any row.
    uint32_t rests() const {
        uint32_t any = 0;
        for (int row = 0; row < ROWS; row++) any |= input(row).rests;
        return any;
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

// Some rows by the quantised weights of a block.
template <typename Format, int ROWS> struct Rectangle {
    using Sums = Floats[ROWS][VECTORS];

    const ByteGroup* inputs;
    const char* packed;
    int num_groups, first_group;

    Tile<Format, ROWS> tile(int group) const {
        const int64_t factor = (first_group + group) / GROUPS_A_FACTOR;
        return {inputs + group, 2 * num_groups, packed + int64_t(group) * Format::GROUP_BYTES,
                packed + int64_t(num_groups) * Format::GROUP_BYTES + factor * Format::Scales::FACTOR_BYTES};
    }

    static void load_sums(const float* from, Sums& sums) {
#pragma GCC unroll 4
        for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++) sums[row][vector] = load(from + row * BLOCK + vector * LANES);
    }
    static void store_sums(float* to, const Sums& sums) {
#pragma GCC unroll 4
        for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++) store(to + row * BLOCK + vector * LANES, sums[row][vector]);
    }

    void add_groups(int from, int to, float* sums) const {
        Sums totals;
        load_sums(sums, totals);
        for (int group = from; group < to; group++) tile(group).add_to(totals);
        store_sums(sums, totals);
    }

    // Of what the inputs lost; a row that has nothing of it adds nothing to its sums.
    void add_rests(int from, int to, float* sums) const {
        uint32_t rests = tile(from).rests();
        for (int group = from; rests && group < to; group++, rests >>= 1)
            if (rests & 1) add_rest(tile(group), sums);
    }

    __attribute__((noinline)) void add_rest(Tile<Format, ROWS> part, float* sums) const {
        ByteGroup rests[ROWS];
        for (int row = 0; row < ROWS; row++) {
            const ByteGroup& input = part.input(row);
            rests[row] = input.rests & 1 ? (&input)[num_groups] : ByteGroup{};
        }
        part.inputs = rests, part.stride = 1;
        Sums totals;
        load_sums(sums, totals);
        part.add_to(totals);
        store_sums(sums, totals);
    }
};

}  // namespace

void multiply_levels(const Block& block, const ByteGroup* inputs, int num_rows, int num_groups, int first_group,
                     float* sums) {
    std::memset(sums, 0, sizeof(float) * num_rows * BLOCK);
    with_format(block.kind, [&](auto format) {
        for (int from = 0; from < num_groups; from += GROUPS_AT_ONCE)
            for (int row = 0; row < num_rows; row += TILE_ROWS)
                with_constant<TILE_ROWS>(std::min(TILE_ROWS, num_rows - row), [&](auto constant) {
                    const Rectangle<decltype(format), constant> rectangle{inputs + int64_t(row) * 2 * num_groups,
                                                                          block.packed, num_groups, first_group};
                    const int to = std::min(from + GROUPS_AT_ONCE, num_groups);
                    rectangle.add_groups(from, to, sums + row * BLOCK);
                    rectangle.add_rests(from, to, sums + row * BLOCK);
                });
    });
}
