// Products with a weight matrix in bfloat16, whatever the number of rows.
//
// The matrix is packed: blocks of BLOCK outputs, and in a block, input pair after input pair, the pairs of all its outputs
// side by side. An output sums over its inputs in their order, in one float32: its bits do not depend on the rows
// beside it or on the number of threads.

#pragma once

#include "simd.h"

#include <algorithm>

constexpr int VECTORS = 3;  // of sums in a row of a block
constexpr int BLOCK = VECTORS * LANES;
#if LANES == 16
constexpr int BLOCK_ROWS = 8;  // 24 of 32 registers hold sums
#else
constexpr int BLOCK_ROWS = 4;
#endif
constexpr int PART_ROWS = 64;  // that a thread takes at a time; their inputs stay in its cache

// As srt/layers/native/library.py declares it.
struct Matrix {
    const uint32_t* packed;
    const BFloat16* bias;  // null: none
    int32_t num_outputs, num_inputs;
};

inline int64_t num_blocks(const Matrix& matrix) { return (matrix.num_outputs + BLOCK - 1) / BLOCK; }

template <int ROWS>
inline void multiply_block(const BFloat16* inputs, int64_t stride, const uint32_t* packed, int num_pairs, float* sums) {
    Floats totals[ROWS][VECTORS];
    for (int row = 0; row < ROWS; row++)
        for (int vector = 0; vector < VECTORS; vector++) totals[row][vector] = Floats{};
    for (int pair = 0; pair < num_pairs; pair++) {
        Words weights[VECTORS];
#pragma GCC unroll 3
        for (int vector = 0; vector < VECTORS; vector++)
            std::memcpy(&weights[vector], packed + int64_t(pair) * BLOCK + vector * LANES, sizeof(Words));
#pragma GCC unroll 8
        for (int row = 0; row < ROWS; row++) {
            uint32_t input;
            std::memcpy(&input, inputs + row * stride + 2 * pair, sizeof input);
            const Words factor = all(input);
#pragma GCC unroll 3
            for (int vector = 0; vector < VECTORS; vector++)
                totals[row][vector] = add_products(totals[row][vector], weights[vector], factor);
        }
    }
    for (int row = 0; row < ROWS; row++)
        for (int vector = 0; vector < VECTORS; vector++) store(sums + row * BLOCK + vector * LANES, totals[row][vector]);
}

// One row of sums becomes outputs, or is added to them; each is rounded by itself, as if they were two operations.
inline void finish_row(float* sums, const BFloat16* bias, int count, BFloat16* outputs, bool adds) {
    int column = 0;
    for (; column + LANES <= count; column += LANES) {
        Floats values = load(sums + column);
        if (bias) values += load(bias + column);
        if (adds) values = load(outputs + column) + bits_as<Floats>(bf16_bits(values) << 16);
        store(outputs + column, values);
    }
    for (; column < count; column++) {
        float value = sums[column];
        if (bias) value += to_float(bias[column]);
        if (adds) value = to_float(outputs[column]) + to_float(to_bfloat16(value));
        outputs[column] = to_bfloat16(value);
    }
}

// To be called by every thread of a team. Ends with a barrier.
inline void multiply_together(const Matrix& matrix, const BFloat16* inputs, int64_t input_stride, int num_rows,
                              BFloat16* outputs, int64_t output_stride, bool adds) {
    const int num_pairs = matrix.num_inputs / 2;
    const int num_parts = (num_rows + PART_ROWS - 1) / PART_ROWS;
    const int64_t num_pieces = num_blocks(matrix) * num_parts;
#pragma omp for schedule(static)
    for (int64_t piece = 0; piece < num_pieces; piece++) {
        const int64_t block = piece / num_parts;
        const int first_row = int(piece % num_parts) * PART_ROWS, end_row = std::min(first_row + PART_ROWS, num_rows);
        const uint32_t* packed = matrix.packed + block * num_pairs * BLOCK;
        const int column = int(block) * BLOCK, count = std::min(BLOCK, matrix.num_outputs - column);
        alignas(64) float sums[BLOCK_ROWS * BLOCK];
        for (int row = first_row; row < end_row; row += BLOCK_ROWS) {
            const int rows = std::min(BLOCK_ROWS, end_row - row);
            with_constant<BLOCK_ROWS>(rows, [&](auto constant) {
                multiply_block<constant>(inputs + row * input_stride, input_stride, packed, num_pairs, sums);
            });
            for (int index = 0; index < rows; index++)
                finish_row(sums + index * BLOCK, matrix.bias ? matrix.bias + column : nullptr, count,
                           outputs + (row + index) * output_stride + column, adds);
        }
    }
}
