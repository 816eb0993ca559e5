// Some rows of inputs by a block of packed weights, in tiles: small matrices in registers, multiplied by one instruction.
//
// Weights of 16 pairs of inputs by 16 outputs are a tile as linear.h packs them, up to 16 rows of inputs another, and their
// sums a third. The instruction sums the products of even inputs and of odd ones, each in their order, and adds both to
// what the sum was before. So a step has always 16 pairs, counted from a block's first, zeros make the last one full, and
// a row's bits depend on nothing but itself.
//
// Written with the compiler's intrinsics, of which a test has its own to run where there is no AMX.

#pragma once

#include "linear.h"

#include <cmath>

static_assert(BLOCK == 48, "a row of a block's sums is three tiles wide");

constexpr int STEP_PAIRS = 16;
constexpr int ROWS_A_TILE = 16;
constexpr int64_t WEIGHT_BYTES = BLOCK * sizeof(uint32_t);  // of one pair, and of a row of sums

// As the processor reads it.
struct TileShapes {
    uint8_t palette, first_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t num_rows[16];
};

static thread_local int shaped_rows = 0;  // of this thread's tiles; 0: they are not in use

// The intrinsics do not tell the compiler what memory they read.
inline void write_to_memory() { asm volatile("" ::: "memory"); }

// Tiles 0 to 2 and 3 to 5 are sums of so many rows, 6 is inputs, 7 weights. What they held is lost.
inline void shape_tiles(int num_rows) {
    if (shaped_rows == num_rows) return;
    alignas(64) TileShapes shapes{};
    shapes.palette = 1;
    for (int tile = 0; tile < 8; tile++) shapes.row_bytes[tile] = 64, shapes.num_rows[tile] = uint8_t(num_rows);
    shapes.num_rows[7] = STEP_PAIRS;
    write_to_memory();
    _tile_loadconfig(&shapes);
    shaped_rows = num_rows;
}

inline void unshape_tiles() {
    if (shaped_rows) _tile_release();
    shaped_rows = 0;
}

// Sums of rows that begin at `low`, and where there are two tiles of rows, at `high`. The two may have a row in common.
template <bool HAS_HIGH> struct SumTiles {
    static void load(const float* low, const float* high) {
        _tile_loadd(0, low, WEIGHT_BYTES);
        _tile_loadd(1, low + 16, WEIGHT_BYTES);
        _tile_loadd(2, low + 32, WEIGHT_BYTES);
        if constexpr (HAS_HIGH) {
            _tile_loadd(3, high, WEIGHT_BYTES);
            _tile_loadd(4, high + 16, WEIGHT_BYTES);
            _tile_loadd(5, high + 32, WEIGHT_BYTES);
        }
    }

    static void clear() {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        if constexpr (HAS_HIGH) {
            _tile_zero(3);
            _tile_zero(4);
            _tile_zero(5);
        }
    }

    // Sixteen pairs. The weights that were used last are used first by the other rows.
    static void add(const BFloat16* low, const BFloat16* high, int64_t stride_bytes, const uint32_t* weights) {
        _tile_loadd(6, low, stride_bytes);
        _tile_loadd(7, weights, WEIGHT_BYTES);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(7, weights + 16, WEIGHT_BYTES);
        _tile_dpbf16ps(1, 6, 7);
        _tile_loadd(7, weights + 32, WEIGHT_BYTES);
        _tile_dpbf16ps(2, 6, 7);
        if constexpr (HAS_HIGH) {
            _tile_loadd(6, high, stride_bytes);
            _tile_dpbf16ps(5, 6, 7);
            _tile_loadd(7, weights + 16, WEIGHT_BYTES);
            _tile_dpbf16ps(4, 6, 7);
            _tile_loadd(7, weights, WEIGHT_BYTES);
            _tile_dpbf16ps(3, 6, 7);
        }
    }

    static void store(float* low, float* high) {
        _tile_stored(0, low, WEIGHT_BYTES);
        _tile_stored(1, low + 16, WEIGHT_BYTES);
        _tile_stored(2, low + 32, WEIGHT_BYTES);
        if constexpr (HAS_HIGH) {
            _tile_stored(3, high, WEIGHT_BYTES);
            _tile_stored(4, high + 16, WEIGHT_BYTES);
            _tile_stored(5, high + 32, WEIGHT_BYTES);
        }
    }
};

// At most one tile of rows, or two.
template <bool HAS_HIGH>
void multiply_tile_rows(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                        float* sums, bool continues) {
    using Sums = SumTiles<HAS_HIGH>;
    const int tile_rows = HAS_HIGH ? (num_rows + 1) / 2 : num_rows, first_high = num_rows - tile_rows;
    float* high_sums = sums + first_high * BLOCK;
    shape_tiles(tile_rows);
    if (continues)
        Sums::load(sums, high_sums);
    else
        Sums::clear();
    const int num_whole = num_pairs / STEP_PAIRS * STEP_PAIRS, num_left = num_pairs - num_whole;
    const BFloat16* high = inputs + first_high * stride;
    for (int pair = 0; pair < num_whole; pair += STEP_PAIRS)
        Sums::add(inputs + 2 * pair, high + 2 * pair, stride * int64_t(sizeof(BFloat16)), packed + int64_t(pair) * BLOCK);
    if (num_left) {
        BFloat16 last_inputs[2 * ROWS_A_TILE][2 * STEP_PAIRS] = {};
        uint32_t last_weights[STEP_PAIRS * BLOCK] = {};
        for (int row = 0; row < num_rows; row++)
            std::memcpy(last_inputs[row], inputs + row * stride + 2 * num_whole, num_left * sizeof(uint32_t));
        std::memcpy(last_weights, packed + int64_t(num_whole) * BLOCK, num_left * WEIGHT_BYTES);
        write_to_memory();
        Sums::add(last_inputs[0], last_inputs[first_high], sizeof last_inputs[0], last_weights);
    }
    Sums::store(sums, high_sums);
}

// As multiply_in_tiles() of amx.h.
inline void multiply_tiles(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                           float* sums, bool continues) {
    write_to_memory();
    for (int row = 0; row < num_rows; row += 2 * ROWS_A_TILE) {
        const int count = std::min(2 * ROWS_A_TILE, num_rows - row);
        const auto multiply = count > ROWS_A_TILE ? multiply_tile_rows<true> : multiply_tile_rows<false>;
        multiply(inputs + row * stride, stride, count, packed, num_pairs, sums + row * BLOCK, continues);
    }
}

// 32 rows, again and again, for benchmarks: nobody reads the sums.
inline void repeat_tiles(const BFloat16* inputs, int64_t stride, const uint32_t* packed, int num_pairs, int count) {
    shape_tiles(ROWS_A_TILE);
    SumTiles<true>::clear();
    for (int index = 0; index < count; index++)
        for (int pair = 0; pair < num_pairs; pair += STEP_PAIRS)
            SumTiles<true>::add(inputs + 2 * pair, inputs + ROWS_A_TILE * stride + 2 * pair,
                                stride * int64_t(sizeof(BFloat16)), packed + pair * BLOCK);
    unshape_tiles();
}

// Whether random products are those that vectors give, but for the order of sums. Later pairs continue earlier ones' sums.
inline bool tiles_agree_with_vectors() {
    constexpr int MAX_ROWS = 53, FIRST_PAIRS = 2 * STEP_PAIRS, NUM_PAIRS = 2 * FIRST_PAIRS + 5;
    static BFloat16 inputs[MAX_ROWS * 2 * NUM_PAIRS], weights[NUM_PAIRS * BLOCK * 2];
    uint32_t random = 1;
    const auto fill = [&](BFloat16* values, int count) {
        for (int index = 0; index < count; index++) {
            random = random * 1664525 + 1013904223;
            values[index] = to_bfloat16(float(int32_t(random)) * 0x1p-31f);
        }
    };
    fill(inputs, MAX_ROWS * 2 * NUM_PAIRS);
    fill(weights, NUM_PAIRS * BLOCK * 2);
    const uint32_t* packed = reinterpret_cast<const uint32_t*>(weights);
    bool agree = true;
    for (const int num_rows : {1, 7, 16, 17, 32, MAX_ROWS}) {
        float expected[MAX_ROWS * BLOCK], sums[MAX_ROWS * BLOCK];
        multiply_in_vectors(inputs, 2 * NUM_PAIRS, num_rows, packed, NUM_PAIRS, expected);
        multiply_tiles(inputs, 2 * NUM_PAIRS, num_rows, packed, FIRST_PAIRS, sums, false);
        multiply_tiles(inputs + 2 * FIRST_PAIRS, 2 * NUM_PAIRS, num_rows, packed + FIRST_PAIRS * BLOCK,
                       NUM_PAIRS - FIRST_PAIRS, sums, true);
        for (int index = 0; index < num_rows * BLOCK; index++) agree &= std::abs(sums[index] - expected[index]) < 1e-4f;
    }
    unshape_tiles();
    return agree;
}
