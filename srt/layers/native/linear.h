// Products with a weight matrix in bfloat16, whatever the number of rows.
//
// The matrix is packed: blocks of BLOCK outputs, and in a block, input pair after input pair, the pairs of all its outputs
// side by side. An output sums over its inputs in their order, in one float32: its bits do not depend on the rows
// beside it or on the number of threads.

#pragma once

#include "levels.h"

#include <algorithm>
#include <vector>

#if LANES == 16
constexpr int BLOCK_ROWS = 8;  // 24 of 32 registers hold sums
#else
constexpr int BLOCK_ROWS = 4;
#endif
constexpr int PART_ROWS = 64;  // that a thread takes at a time; their inputs stay in its cache

enum MatrixKind : int32_t { PAIRS_OF_BFLOAT16 = 0, FOUR_BITS = 1, EIGHT_BITS = 2 };

// As srt/layers/native/library.py declares it. What `packed` holds is the kind's business: here, or in levels.h.
struct Matrix {
    const void* packed;
    const BFloat16* bias;  // null: none
    int32_t num_outputs, num_inputs;
    int32_t kind;
};

inline int64_t num_blocks(const Matrix& matrix) { return (matrix.num_outputs + BLOCK - 1) / BLOCK; }

inline int64_t block_bytes(const Matrix& matrix) {
    switch (matrix.kind) {
        case FOUR_BITS: return int64_t(matrix.num_inputs / GROUP) * FourBits::GROUP_BYTES;
        case EIGHT_BITS: return int64_t(matrix.num_inputs / GROUP) * EightBits::GROUP_BYTES;
        default: return int64_t(matrix.num_inputs / 2) * BLOCK * 4;
    }
}

// Some rows of inputs by a block's outputs: ROWS · BLOCK sums.
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

inline void multiply_pairs(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                           float* sums) {
    for (int row = 0; row < num_rows; row += BLOCK_ROWS) {
        with_constant<BLOCK_ROWS>(std::min(BLOCK_ROWS, num_rows - row), [&](auto constant) {
            multiply_block<constant>(inputs + row * stride, stride, packed, num_pairs, sums + row * BLOCK);
        });
    }
}

// One row of sums becomes outputs, or is added to them; each is rounded by itself, as if they were two operations.
inline void finish_row(float* sums, const BFloat16* bias, int count, BFloat16* outputs, bool adds) {
    int column = 0;
    for (; column + LANES <= count; column += LANES) {
        Floats values = load(sums + column);
        if (bias) values += load(bias + column);
        if (adds) values = load(outputs + column) + bits_as<Floats>(__builtin_convertvector(bf16_halves(values), Words) << 16);
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
    const int num_parts = (num_rows + PART_ROWS - 1) / PART_ROWS;
    const int64_t num_pieces = num_blocks(matrix) * num_parts;
    const int num_groups = matrix.num_inputs / GROUP;
    const float* input_sums =
        matrix.kind == FOUR_BITS ? sum_groups_together(inputs, input_stride, num_rows, num_groups) : nullptr;
#pragma omp for schedule(static)
    for (int64_t piece = 0; piece < num_pieces; piece++) {
        const int64_t block = piece / num_parts;
        const int first_row = int(piece % num_parts) * PART_ROWS, end_row = std::min(first_row + PART_ROWS, num_rows);
        const int column = int(block) * BLOCK, count = std::min(BLOCK, matrix.num_outputs - column);
        const char* packed = static_cast<const char*>(matrix.packed) + block * block_bytes(matrix);
        const BFloat16* from = inputs + first_row * input_stride;
        alignas(64) float sums[PART_ROWS * BLOCK];
        switch (matrix.kind) {
            case FOUR_BITS:
                multiply_levels<BLOCK_ROWS, FourBits>(from, input_stride, end_row - first_row, packed, num_groups,
                                                      input_sums + int64_t(first_row) * num_groups, sums);
                break;
            case EIGHT_BITS:
                multiply_levels<BLOCK_ROWS, EightBits>(from, input_stride, end_row - first_row, packed, num_groups,
                                                       nullptr, sums);
                break;
            default:
                multiply_pairs(from, input_stride, end_row - first_row, reinterpret_cast<const uint32_t*>(packed),
                               matrix.num_inputs / 2, sums);
        }
        for (int row = first_row; row < end_row; row++)
            finish_row(sums + (row - first_row) * BLOCK, matrix.bias ? matrix.bias + column : nullptr, count,
                       outputs + row * output_stride + column, adds);
    }
}
