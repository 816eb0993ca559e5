// The product that gives logits. They stay in float32: rounded to bfloat16, the likeliest few would often be equals.
//
// Of many rows nothing is wanted but the likeliest token. Their logits are never written, only the greatest of each
// block; which output of its block that is, is computed once more: one block of a thousand.

#include "linear.h"

#include <cmath>

namespace {

// One row's logits of one block.
struct BlockLogits {
    const float* sums;
    const BFloat16* bias;  // null: none
    int count;

    BlockLogits(const Matrix& matrix, const Block& block, const float* sums)
        : sums(sums), bias(matrix.bias ? matrix.bias + block.column : nullptr), count(block.count) {}

    float at(int column) const { return bias ? sums[column] + to_float(bias[column]) : sums[column]; }

    void write(float* to) const {
        for (int column = 0; column < count; column++) to[column] = at(column);
    }
    // A NaN is none.
    float greatest() const {
        Floats most = all(-INFINITY);
        int column = 0;
        for (; column + LANES <= count; column += LANES) {
            const Floats some = load(sums + column);
            most = larger(bias ? some + load(bias + column) : some, most);
        }
        float result = largest(most);
        for (; column < count; column++) result = at(column) > result ? at(column) : result;
        return result;
    }
    // The first.
    int place_of_greatest() const {
        int place = 0;
        float greatest = -INFINITY;
        for (int column = 0; column < count; column++) {
            if (!(at(column) > greatest)) continue;
            greatest = at(column);
            place = column;
        }
        return place;
    }
};

// Rows of which only the greatest is wanted, with each block: (blocks, rows), whole vectors of rows.
struct BlockMaxima {
    float* values;
    int64_t num_blocks, stride;

    struct Best {
        Floats value;
        Ints block;
    };
    // Of so many rows at once; the first of equal blocks.
    Best best_from(int64_t first_row) const {
        Best best{all(-INFINITY), Ints{}};
        for (int64_t block = 0; block < num_blocks; block++) {
            const Floats values_here = load(values + block * stride + first_row);
            const Ints is_better = values_here > best.value;
            best.value = is_better ? values_here : best.value;
            best.block = is_better ? Ints{} + int32_t(block) : best.block;
        }
        return best;
    }
};

// Whether the greatest of a row's sums is found while they are in registers.
bool can_skip_sums(const Matrix& matrix, const Block& block) {
    return block.kind == PAIRS_OF_BFLOAT16 && block.count == BLOCK && !matrix.bias && !uses_tiles;
}

void find_greatest(const Matrix& matrix, const Part& part, const Rows& all_rows, float* greatest) {
    const Rows rows = all_rows.from(part.first_row, matrix);
    const auto* packed = reinterpret_cast<const uint32_t*>(part.block.packed);
    const auto take = [&](int row, const RowSums& sums) {
        Floats most = all(-INFINITY);
        for (const Floats& some : sums) most = larger(some, most);  // a NaN is none
        greatest[row] = largest(most);
    };
    take_products(rows.values, rows.stride, part.num_rows(), packed, matrix.num_inputs / 2, take);
}

}  // namespace

// Of the first `num_logit_rows` rows all logits, (rows, num_outputs); of the others the greatest, and which output it is:
// the first of equals. Where none is possible, −∞ and 0.
extern "C" void lockstep_head(const Matrix* matrix, const BFloat16* inputs, int32_t num_rows, int32_t num_logit_rows,
                              float* logits, float* greatest, int64_t* places, int32_t num_threads) {
    static thread_local std::vector<ByteGroup> bytes_buffer;
    static thread_local std::vector<float> maxima_buffer;
    ByteGroup* bytes = grown(bytes_buffer, wants_bytes(*matrix) ? num_rows * Rows::groups_a_row(*matrix) : 0);
    const int64_t num_vectors = (num_rows - num_logit_rows + LANES - 1) / LANES;
    BlockMaxima maxima{nullptr, num_blocks(*matrix), num_vectors * LANES};
    maxima.values = grown(maxima_buffer, maxima.num_blocks * maxima.stride);
    work_together(num_threads, [&](Member& member) {
        const Rows rows = round_together(member, *matrix, inputs, matrix->num_inputs, num_rows, LARGE_HEAD, bytes);
        each_part(member, *matrix, num_rows, [&](const Part& part, const MayWrite& may_write) {
            float* block_maxima = maxima.values + part.block_index * maxima.stride - num_logit_rows;
            if (part.first_row >= num_logit_rows && can_skip_sums(*matrix, part.block)) {
                float found[PART_ROWS];
                find_greatest(*matrix, part, rows, found);
                if (may_write()) std::copy_n(found, part.num_rows(), block_maxima + part.first_row);
                return;
            }
            multiply_part(*matrix, rows, part, may_write, {}, [&](int64_t row, const float* block_sums) {
                const BlockLogits own(*matrix, part.block, block_sums);
                if (row < num_logit_rows)
                    own.write(logits + row * matrix->num_outputs + part.block.column);
                else
                    block_maxima[row] = own.greatest();
            });
        });
        member.share(num_vectors, [&](int64_t vector, const MayWrite& may_write) {
            const int64_t first_row = num_logit_rows + vector * LANES;
            const int count = int(std::min<int64_t>(LANES, num_rows - first_row));
            const BlockMaxima::Best best = maxima.best_from(vector * LANES);
            int64_t found[LANES];
            for (int lane = 0; lane < count && maxima.num_blocks > 0; lane++) {
                const int64_t row = first_row + lane;
                const Block block = find_block(*matrix, best.block[lane]);
                float block_sums[BLOCK];
                multiply_rows(*matrix, block, rows.from(row, *matrix), 1, block_sums);
                found[lane] = block.column + BlockLogits(*matrix, block, block_sums).place_of_greatest();
            }
            if (!may_write()) return;
            for (int lane = 0; lane < count; lane++) {
                const bool is_none = best.value[lane] == -INFINITY;
                greatest[vector * LANES + lane] = best.value[lane];
                places[vector * LANES + lane] = is_none ? 0 : found[lane];
            }
        });
    });
}
