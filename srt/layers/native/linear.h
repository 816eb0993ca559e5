// Products with a weight matrix, whatever the number of rows. Quantised weights are the business of levels.h.
//
// A matrix in bfloat16 is packed: blocks of BLOCK outputs, and in a block, input pair after input pair, the pairs of all its outputs
// side by side. An output sums over its inputs in their order, in one float32: its bits do not depend on the rows
// beside it or on the number of threads.

#pragma once

#include "amx.h"
#include "levels.h"
#include "scratch.h"
#include "team.h"

#include <algorithm>

#if LANES == 16
constexpr int BLOCK_ROWS = 8;  // 24 of 32 registers hold sums
#else
constexpr int BLOCK_ROWS = 4;
#endif
constexpr int PART_ROWS = 64;  // that a thread takes at a time; their inputs stay in its cache

constexpr int MAX_PARTS = 3;  // queries, keys and values

// Outputs that are packed in one way. What `packed` holds is the kind's business: here, or in levels.h.
struct MatrixPart {
    const void* packed;
    int32_t num_outputs;
    int32_t kind;
};

// As srt/layers/native/library.py declares it.
struct Matrix {
    MatrixPart parts[MAX_PARTS];  // one below the other
    const BFloat16* bias;         // null: none
    int32_t num_parts, num_outputs, num_inputs;
    int32_t first_group;  // of the inputs: how many groups that share a factor with it are not here
};

// Some outputs, side by side in memory.
struct Block {
    const char* packed;
    int32_t kind, column, count;
};

inline int64_t num_blocks(const MatrixPart& part) { return (part.num_outputs + BLOCK - 1) / BLOCK; }

inline int64_t num_blocks(const Matrix& matrix) {
    int64_t total = 0;
    for (int part = 0; part < matrix.num_parts; part++) total += num_blocks(matrix.parts[part]);
    return total;
}

inline int64_t block_bytes(int32_t kind, int num_inputs, int first_group) {
    if (kind == PAIRS_OF_BFLOAT16) return int64_t(num_inputs / 2) * BLOCK * 4;
    return with_format(kind, [&](auto format) { return format.block_bytes(num_inputs / GROUP, first_group); });
}

inline Block find_block(const Matrix& matrix, int64_t index) {
    const MatrixPart* part = matrix.parts;
    int32_t column = 0;
    for (; index >= num_blocks(*part); part++) index -= num_blocks(*part), column += part->num_outputs;
    const int32_t first = int32_t(index) * BLOCK;
    const char* packed = static_cast<const char*>(part->packed);
    return {packed + index * block_bytes(part->kind, matrix.num_inputs, matrix.first_group), part->kind, column + first,
            std::min(BLOCK, part->num_outputs - first)};
}

// Where a block's rows of outputs will be written, `stride` apart; null: unknown. Each row is another page's cache line, so they
// are fetched while the sums are made.
struct Destination {
    const BFloat16* rows = nullptr;
    int64_t stride = 0;

    Destination from(int64_t row, int column) const { return {rows ? rows + row * stride + column : nullptr, stride}; }
    void fetch(int first_row, int count) const {
        if (!rows) return;
        for (const BFloat16* row = rows + first_row * stride; count > 0; count--, row += stride) {
            __builtin_prefetch(row, 1, 2);
            __builtin_prefetch(row + BLOCK - 1, 1, 2);
        }
    }
};

// Some rows of inputs, as round_row() writes them, by a block of quantised weights: num_rows · BLOCK sums.
void multiply_levels(const Block& block, const ByteGroup* inputs, int num_rows, int num_groups, int first_group,
                     float* sums, const Destination& destination);

// What a product reads: rows in bfloat16, `stride` apart, and the same in bytes if a part of the matrix wants them.
struct Rows {
    const BFloat16* values;
    int64_t stride;
    const ByteGroup* bytes;

    Rows from(int64_t row, const Matrix& matrix) const {
        return {values + row * stride, stride, bytes ? bytes + row * groups_a_row(matrix) : nullptr};
    }
    static int64_t groups_a_row(const Matrix& matrix) { return int64_t(matrix.num_inputs) / GROUP * 2; }
};

inline bool wants_bytes(const Matrix& matrix) {
    return std::any_of(matrix.parts, matrix.parts + matrix.num_parts,
                       [](const MatrixPart& part) { return part.kind != PAIRS_OF_BFLOAT16; });
}

// body(row) of all rows: by each thread for itself, or shared out among them.
template <typename Body> inline void each_row(Member& member, int num_rows, bool is_own, const Body& body) {
    if (is_own) {
        for (int row = 0; row < num_rows; row++) body(row);
    } else {
        member.share(num_rows, [&](int64_t row, const MayWrite& may_write) {
            if (may_write()) body(row);
        });
    }
}

// Rows that all threads read, with their bytes in `shared`; of few rows each thread makes its own.
inline Rows round_together(Member& member, const Matrix& matrix, const BFloat16* values, int64_t stride, int num_rows,
                           float large, ByteGroup* shared) {
    if (!wants_bytes(matrix)) return {values, stride, nullptr};
    static thread_local std::vector<ByteGroup> own;
    const int64_t width = Rows::groups_a_row(matrix);
    const bool is_own = num_rows <= 8;
    ByteGroup* bytes = is_own ? grown(own, size_t(num_rows) * width) : shared;
    each_row(member, num_rows, is_own, [&](int64_t row) {
        round_row(values + row * stride, matrix.num_inputs / GROUP, large, bytes + row * width);
    });
    return {values, stride, bytes};
}

// Some rows of inputs by a block's outputs: take(row, sums) gets BLOCK sums of each.
template <int ROWS, typename Take>
inline void multiply_block(const BFloat16* inputs, int64_t stride, const uint32_t* packed, int num_pairs,
                           const Take& take) {
    RowSums totals[ROWS];
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
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; row++) take(row, totals[row]);
}

// Of any number of rows.
template <typename Take>
inline void take_products(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                          const Take& take) {
    for (int first = 0; first < num_rows; first += BLOCK_ROWS) {
        with_constant<BLOCK_ROWS>(std::min(BLOCK_ROWS, num_rows - first), [&](auto constant) {
            multiply_block<constant>(inputs + first * stride, stride, packed, num_pairs,
                                     [&](int row, const RowSums& sums) { take(first + row, sums); });
        });
    }
}

inline void multiply_in_vectors(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed,
                                int num_pairs, float* sums) {
    take_products(inputs, stride, num_rows, packed, num_pairs,
                  [&](int row, const RowSums& row_sums) { store_row(sums + row * BLOCK, row_sums); });
}

inline void multiply_pairs(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                           float* sums) {
    if (uses_tiles) return multiply_in_tiles(inputs, stride, num_rows, packed, num_pairs, sums, false);
    multiply_in_vectors(inputs, stride, num_rows, packed, num_pairs, sums);
}

// One row of sums becomes outputs, or is added to them; each is rounded by itself, as if they were two operations.
inline void finish_row(const float* sums, const BFloat16* bias, int count, BFloat16* outputs, bool adds) {
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

// Some rows of inputs by a block: num_rows · BLOCK sums.
inline void multiply_rows(const Matrix& matrix, const Block& block, const Rows& rows, int num_rows, float* sums,
                          const Destination& destination = {}) {
    const TileUse use;
    if (block.kind == PAIRS_OF_BFLOAT16)
        return multiply_pairs(rows.values, rows.stride, num_rows, reinterpret_cast<const uint32_t*>(block.packed),
                              matrix.num_inputs / 2, sums);
    multiply_levels(block, rows.bytes, num_rows, matrix.num_inputs / GROUP, matrix.first_group, sums, destination);
}

// A block, and the rows that a thread multiplies by it at a time.
struct Part {
    Block block;
    int64_t block_index;
    int first_row, end_row;

    Part(const Matrix& matrix, int num_rows, int64_t piece)
        : block(find_block(matrix, piece / num_parts(num_rows))), block_index(piece / num_parts(num_rows)),
          first_row(int(piece % num_parts(num_rows)) * PART_ROWS), end_row(std::min(first_row + PART_ROWS, num_rows)) {}

    int num_rows() const { return end_row - first_row; }
    static int num_parts(int num_rows) { return (num_rows + PART_ROWS - 1) / PART_ROWS; }
};

// To be called by every thread of a team, with body(part, may_write).
template <typename Body>
inline void each_part(Member& member, const Matrix& matrix, int num_rows, const Body& body) {
    member.share(num_blocks(matrix) * Part::num_parts(num_rows), [&](int64_t piece, const MayWrite& may_write) {
        body(Part(matrix, num_rows, piece), may_write);
    });
}

// finish(row, sums) is told of each row's sums, once.
template <typename Finish>
inline void multiply_part(const Matrix& matrix, const Rows& rows, const Part& part, const MayWrite& may_write,
                          const Destination& destination, const Finish& finish) {
    alignas(64) float sums[PART_ROWS * BLOCK];
    multiply_rows(matrix, part.block, rows.from(part.first_row, matrix), part.num_rows(), sums,
                  destination.from(part.first_row, part.block.column));
    if (!may_write()) return;
    for (int row = part.first_row; row < part.end_row; row++) finish(row, sums + (row - part.first_row) * BLOCK);
}

// Rounded to bfloat16, or added to what is there.
inline void multiply_together(Member& member, const Matrix& matrix, const Rows& rows, int num_rows, BFloat16* outputs,
                              int64_t output_stride, bool adds) {
    each_part(member, matrix, num_rows, [&](const Part& part, const MayWrite& may_write) {
        const BFloat16* bias = matrix.bias ? matrix.bias + part.block.column : nullptr;
        multiply_part(matrix, rows, part, may_write, {outputs, output_stride}, [&](int64_t row, const float* sums) {
            finish_row(sums, bias, part.block.count, outputs + row * output_stride + part.block.column, adds);
        });
    });
}
