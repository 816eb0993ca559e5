// `TileAttention`: some neighbouring queries of one row, or one of each of several rows, for the heads that share
// key-value heads.
//
// A tile has one or several key-value heads; the rows of each are (query, head of the group) pairs, query by query. What
// it sees is added chunk by chunk, each for all its heads, because a slot's heads lie side by side, and for all queries
// that see the same slots there.

#pragma once

#include "attention_plan.h"

#include <cmath>

template <typename Value> class TileAttention {
  public:
    static constexpr bool PAIRS = Products<Value>::are_pairs;
    static constexpr int VALUES_A_STEP = PAIRS ? 2 : 1;
    static constexpr int UNIT = PAIRS ? 32 : LANES;  // values that the inner loops take at a time

    // `max_rows`: of all heads of a tile.
    static size_t scratch_floats(int max_rows, int head_dim) {
        const size_t width = padded_head_dim(head_dim);
        return max_rows * width + CHUNK * width * 2 + max_rows * size_t(CHUNK) + 2 * state_floats(max_rows, head_dim) +
               64;
    }

    TileAttention(const AttentionBatch& batch, const AttentionShape& shape, const AttentionInputs& inputs, int max_rows,
                  float* scratch)
        : batch_(batch), shape_(shape), inputs_(inputs), max_rows_(max_rows),
          group_(shape.num_heads / shape.num_kv_heads), width_(round_up(shape.head_dim, UNIT)),
          num_steps_(PAIRS ? (shape.head_dim + 1) / 2 : shape.head_dim),
          queries_(aligned(scratch)), keys_(queries_ + size_t(max_rows) * padded_head_dim(shape.head_dim)),
          padded_values_(keys_ + size_t(CHUNK) * padded_head_dim(shape.head_dim)),
          scores_(padded_values_ + size_t(CHUNK) * padded_head_dim(shape.head_dim)),
          chunk_(scores_ + size_t(max_rows) * CHUNK, max_rows),
          total_(chunk_.values + size_t(max_rows) * padded_head_dim(shape.head_dim), max_rows) {}

    // Begin a tile that has seen nothing.
    void start(const Tile& tile, const Query* queries) {
        first_query_ = queries;
        first_head_ = tile.first_head;
        num_heads_ = tile.num_heads;
        num_rows_ = tile.num_queries * group_;
        for (int index = 0; index < num_heads_ * num_rows_; index++) total_.weight[index] = 0;
        has_queries_ = false;
    }

    // What will be added after the next chunk: its keys and values are fetched meanwhile.
    void expect(int row, int first_head, int chunk) {
        const int end = batch_.seq_lens[row];
        const int32_t* slots = batch_.slot_table + row * batch_.table_stride;
        const size_t slot_bytes = size_t(shape_.num_kv_heads) * shape_.head_dim * sizeof(Value);
        const size_t offset = size_t(first_head) * shape_.head_dim * sizeof(Value);
        const char* keys = static_cast<const char*>(shape_.key_pool) + offset;
        const char* values = static_cast<const char*>(shape_.value_pool) + offset;
        const int num_rows = std::min(end - chunk * CHUNK, CHUNK);
        for (int index = 0; index < num_rows; index++) {
            const size_t at = size_t(slots[chunk * CHUNK + index]) * slot_bytes;
            keys_ahead_.rows[index] = keys + at;
            values_ahead_.rows[index] = values + at;
        }
        keys_ahead_.expect(num_rows, num_heads_ * shape_.head_dim * int(sizeof(Value)));
        values_ahead_.expect(num_rows, num_heads_ * shape_.head_dim * int(sizeof(Value)));
    }

    void add_chunk(const Step& step) {
        if (!has_queries_) pack_queries();
        const int start = step.chunk * CHUNK;
        const Query& last = first_query_[step.first_query + step.num_queries - 1];
        const int num_seen = last.position + 1 - start < CHUNK ? last.position + 1 - start : CHUNK;
        first_looking_ = step.first_query * group_;
        num_looking_ = step.num_queries * group_;
        find_rows(last.row, start, num_seen);
        keys_ahead_.plan(num_heads_ * num_seen * std::max(num_steps_ / STEPS, 1));
        values_ahead_.plan(num_heads_ * num_seen);
        const bool is_direct = num_looking_ <= DIRECT_ROWS && shape_.head_dim % (STEPS * VALUES_A_STEP) == 0;
        if (is_direct)
            with_constant<DIRECT_ROWS>(num_looking_, [&](auto num_rows) { score_directly<num_rows>(num_seen); });
        for (head_ = 0; head_ < num_heads_; head_++) {
            if (width_ != shape_.head_dim) pad_values(num_seen);
            if (!is_direct) {
                pack_keys(num_seen);
                score(start, num_seen);
            }
            soften(start, num_seen);
            sum_values(start, num_seen);
            merge(chunk_, head_ * num_rows_ + first_looking_, num_looking_);
        }
    }

    void merge(float* partial) { merge(ChunkState(partial, max_rows_), 0, num_heads_ * num_rows_); }

    void save(float* partial) const {
        const size_t num_rows = size_t(num_heads_) * num_rows_;
        ChunkState to(partial, max_rows_);
        std::memcpy(to.largest, total_.largest, num_rows * sizeof(float));
        std::memcpy(to.weight, total_.weight, num_rows * sizeof(float));
        std::memcpy(to.values, total_.values, num_rows * width_ * sizeof(float));
    }

    void write_output() const {
        for (int index = 0; index < num_heads_ * num_rows_; index++) {
            const int head = first_head_ + index / num_rows_, row = index % num_rows_;
            const size_t token = first_query_[row / group_].token;
            Value* output = static_cast<Value*>(inputs_.outputs) +
                            (token * shape_.num_heads + head * group_ + row % group_) * shape_.head_dim;
            const float* values = total_.values + size_t(index) * width_;
            const Floats factor = all(1.0f / total_.weight[index]);
            Value whole[1024 + 32];
            Value* to = width_ == shape_.head_dim ? output : whole;
            for (int start = 0; start < width_; start += UNIT) write_unit(to + start, values + start, factor);
            if (to != output) std::memcpy(output, whole, shape_.head_dim * sizeof(Value));
        }
    }

  private:
    static float* aligned(float* pointer) {
        return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(pointer) + 63) / 64 * 64);
    }

    static void write_unit(Value* to, const float* values, Floats factor) {
#if USE_BF16_DOT
        if constexpr (PAIRS) {
            // Unpacking has put values 0–3, 8–11, 16–19, 24–27 into the first vector, the others into the second.
            const __m512 low = _mm512_loadu_ps(values), high = _mm512_loadu_ps(values + 16);
            const __m512i front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
            const __m512i back = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
            store(to, bits_as<Floats>(_mm512_permutex2var_ps(low, front, high)) * factor);
            store(to + 16, bits_as<Floats>(_mm512_permutex2var_ps(low, back, high)) * factor);
            return;
        }
#endif
        store(to, load(values) * factor);
    }

    // Rows of factors for `multiply`: floats, or pairs of bfloat16 that look like floats.
    void pack_queries() {
        has_queries_ = true;
        for (int index = 0; index < num_heads_ * num_rows_; index++) {
            const int head = first_head_ + index / num_rows_, row = index % num_rows_;
            const Value* from = static_cast<const Value*>(inputs_.queries) +
                                first_query_[row / group_].token * inputs_.query_stride +
                                size_t(head * group_ + row % group_) * shape_.head_dim;
            float* to = queries_ + size_t(index) * num_steps_;
            if constexpr (PAIRS) {
                if (shape_.head_dim % 2) to[num_steps_ - 1] = 0;
                std::memcpy(to, from, shape_.head_dim * sizeof(Value));
            } else {
                for (int index = 0; index < shape_.head_dim; index++) to[index] = to_float(from[index]);
            }
        }
    }

    const float* queries(int head) const {
        return queries_ + (size_t(head) * num_rows_ + first_looking_) * num_steps_;
    }
    float* scores(int head, int row) const { return scores_ + (size_t(head) * num_looking_ + row) * CHUNK; }
    int offset(int head) const { return head * shape_.head_dim; }

    // Of the tile's first head; the others' follow it.
    void find_rows(int row, int start, int num_seen) {
        const int32_t* slots = batch_.slot_table + row * batch_.table_stride + start;
        const Value* keys = static_cast<const Value*>(shape_.key_pool) + offset(first_head_);
        const Value* values = static_cast<const Value*>(shape_.value_pool) + offset(first_head_);
        const size_t slot_size = size_t(shape_.num_kv_heads) * shape_.head_dim;
        for (int index = 0; index < num_seen; index++) {
            key_rows_[index] = keys + slots[index] * slot_size;
            value_rows_[index] = values + slots[index] * slot_size;
        }
        // A pair's second half may lie beyond the end; its weight is 0.
        value_rows_[num_seen] = value_rows_[num_seen - 1];
        for (int index = num_seen; index % (2 * LANES); index++) key_rows_[index] = key_rows_[num_seen - 1];
    }

    // Values of the head in rows as long as the inner loops want them.
    void pad_values(int num_seen) {
        Value* padded = reinterpret_cast<Value*>(padded_values_);
        for (int index = 0; index < num_seen; index++) {
            Value* row = padded + size_t(index) * width_;
            std::memcpy(row, value_rows_[index] + offset(head_), shape_.head_dim * sizeof(Value));
            std::memset(row + shape_.head_dim, 0, (width_ - shape_.head_dim) * sizeof(Value));
            padded_rows_[index] = row;
        }
        padded_rows_[num_seen] = padded_rows_[num_seen - 1];
    }

    // keys_[step][position]: positions stand side by side in a vector.
    void pack_keys(int num_seen) {
        for (int position = 0; position < num_seen; position += LANES) {
            int step = 0;
            for (; (step + STEPS) * VALUES_A_STEP <= shape_.head_dim; step += STEPS) {
                keys_ahead_.advance(LANES);
                pack_transposed(key_rows_ + position, offset(head_) + step * VALUES_A_STEP,
                                keys_ + size_t(step) * CHUNK + position);
            }
            for (; step < num_steps_; step++) {
                for (int lane = 0; lane < LANES; lane++)
                    keys_[size_t(step) * CHUNK + position + lane] =
                        key_step(key_rows_[position + lane] + offset(head_) + step * VALUES_A_STEP,
                                 shape_.head_dim - step * VALUES_A_STEP);
            }
        }
    }

    static float key_step(const Value* key, int num_left) {
        if constexpr (PAIRS) {
            const uint32_t second = num_left > 1 ? key[1].bits : 0;
            return bits_as<float>(key[0].bits | second << 16);
        } else {
            return to_float(key[0]);
        }
    }

    static void pack_transposed(const Value* const* rows, int offset, float* to) {
        Floats steps[STEPS];
        transpose(rows, offset, steps);
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) store(to + step * CHUNK, steps[step]);
    }

    // For a few rows: keys are multiplied as soon as they are transposed, those of all heads, for they lie side by side.
    // The same sums as `score`, in the same order.
    template <int ROWS> void score_directly(int num_seen) {
        // Each product waits for the one before it in its sum, so very few rows take two vectors of positions at a time.
        constexpr int VECTORS = ROWS <= DIRECT_ROWS / 2 ? 2 : 1;
        for (int position = 0; position < num_seen; position += VECTORS * LANES)
            for (int head = 0; head < num_heads_; head++) score_some<ROWS, VECTORS>(head, position);
    }

    template <int ROWS, int VECTORS> void score_some(int head, int position) {
        const float* queries = this->queries(head);
        Floats totals[ROWS][VECTORS];
        clear(totals);
        for (int first = 0; first < num_steps_; first += STEPS) {
            keys_ahead_.advance(VECTORS * LANES);
            Floats steps[VECTORS][STEPS];
#pragma GCC unroll 2
            for (int vector = 0; vector < VECTORS; vector++)
                transpose(key_rows_ + position + vector * LANES, offset(head) + first * VALUES_A_STEP, steps[vector]);
#pragma GCC unroll 8
            for (int step = 0; step < STEPS; step++) {
#pragma GCC unroll 6
                for (int row = 0; row < ROWS; row++) {
                    const Floats factor = all(queries[row * num_steps_ + first + step]);
#pragma GCC unroll 2
                    for (int vector = 0; vector < VECTORS; vector++) {
                        Floats& total = totals[row][vector];
                        if constexpr (PAIRS)
                            total = add_products(total, bits_as<Words>(steps[vector][step]), bits_as<Words>(factor));
                        else
                            total += steps[vector][step] * factor;
                    }
                }
            }
        }
        store(scores(head, 0) + position, CHUNK, totals);
    }

    void score(int start, int num_seen) {
        for (int first = 0; first < num_seen; first += NUM_COLUMNS * LANES) {
            each_block(start, num_seen, [&](int row, int rows, int num_seen) {
                if (num_seen <= first) return;
                const int columns = std::min((num_seen - first + LANES - 1) / LANES, NUM_COLUMNS);
                with_constant<ROWS_AT_ONCE>(rows, [&](auto num_rows) {
                    with_constant<NUM_COLUMNS>(columns, [&](auto num_columns) {
                        multiply<num_rows, num_columns, PAIRS>(queries(head_) + size_t(row) * num_steps_, num_steps_,
                                                               keys_ + first, CHUNK, num_steps_,
                                                               scores(head_, row) + first, CHUNK);
                    });
                });
            });
        }
    }

    // Body(first row, number of rows, how much of the chunk the last of them sees) for rows that are computed at once.
    template <typename Body> void each_block(int start, int num_seen, const Body& body) const {
        for (int row = 0; row < num_looking_; row += ROWS_AT_ONCE) {
            const int rows = std::min(num_looking_ - row, ROWS_AT_ONCE);
            body(row, rows, std::max(std::min(position(row + rows - 1) + 1 - start, num_seen), 0));
        }
    }

    int position(int row) const { return first_query_[(first_looking_ + row) / group_].position; }

    // Scores become weights, and 0 where a row must not look. Its largest score is kept as an exponent of 2.
    void soften(int start, int num_seen) {
        each_block(start, num_seen, [&](int first, int rows, int num_seen) {
            const int num_vectors = (num_seen + LANES - 1) / LANES;
            float factor;
            for (int row = first; row < first + rows; row++) {
                const int end = position(row) + 1 - start;
                const Sight sight{shape_.window ? end - shape_.window : 0, end};
                const float largest = prepare_scores(scores(head_, row), num_vectors, sight, shape_.scale,
                                                     shape_.soft_cap, factor);
                chunk_.largest[row] = largest * factor;
            }
            for (int row = first; row < first + rows; row++) {
                // Where nothing is seen, −∞ − −∞ would be no number.
                const float top = chunk_.largest[row] == -INFINITY ? 0 : chunk_.largest[row];
                chunk_.weight[row] = make_weights<PAIRS>(scores(head_, row), num_vectors, factor, top);
            }
        });
    }

    void sum_values(int start, int num_seen) {
        const bool is_padded = width_ != shape_.head_dim;
        const Value* const* rows_of_values = is_padded ? padded_rows_ : value_rows_;
        const int from = is_padded ? 0 : offset(head_);
        for (int first = 0; first < width_; first += NUM_COLUMNS * LANES) {
            const int units = std::min((width_ - first) / UNIT, NUM_COLUMNS * LANES / UNIT);
            each_block(start, num_seen, [&](int row, int rows, int num_seen) {
                RowsAhead* ahead = row || first ? nullptr : &values_ahead_;
                with_constant<ROWS_AT_ONCE>(rows, [&](auto num_rows) {
                    with_constant<NUM_COLUMNS / VALUES_A_STEP>(units, [&](auto num_units) {
                        weigh<num_rows, num_units * VALUES_A_STEP, Value>(
                            scores(head_, row), rows_of_values, ahead, from + first, num_seen,
                            chunk_.values + size_t(row) * width_ + first, width_);
                    });
                });
            });
        }
    }

    // The rows of `from` into the total's rows from `first_total` on.
    void merge(const ChunkState& from, int first_total, int num_rows) {
        for (int first = 0; first < num_rows; first += LANES) {
            const int num = num_rows - first < LANES ? num_rows - first : LANES;
            merge_some(ChunkState{from.largest + first, from.weight + first, from.values + size_t(first) * width_},
                       first_total + first, num);
        }
    }

    // At most LANES rows. Lanes beyond the last, and those of rows that have seen nothing, hold anything.
    void merge_some(const ChunkState& from, int first_total, int num_rows) {
        const Floats before = load(total_.largest + first_total), new_one = load(from.largest);
        const Floats most = larger(before, new_one);
        const Floats keep = power_of_two(before - most), take = power_of_two(new_one - most);
        for (int row = 0; row < num_rows; row++) {
            const int total = first_total + row;
            if (from.weight[row] == 0) continue;
            const float* values = from.values + size_t(row) * width_;
            float* to = total_.values + size_t(total) * width_;
            if (total_.weight[total] == 0) {
                total_.largest[total] = from.largest[row];
                total_.weight[total] = from.weight[row];
                std::memcpy(to, values, width_ * sizeof(float));
                continue;
            }
            total_.largest[total] = most[row];
            total_.weight[total] = total_.weight[total] * keep[row] + from.weight[row] * take[row];
            for (int start = 0; start < width_; start += LANES)
                store(to + start, load(to + start) * keep[row] + load(values + start) * take[row]);
        }
    }

    const AttentionBatch& batch_;
    const AttentionShape& shape_;
    const AttentionInputs& inputs_;
    const int max_rows_, group_, width_, num_steps_;
    float *const queries_, *const keys_, *const padded_values_, *const scores_;
    const ChunkState chunk_;
    ChunkState total_;
    const Value* key_rows_[CHUNK];
    const Value* value_rows_[CHUNK + 1];
    const Value* padded_rows_[CHUNK + 1];
    RowsAhead keys_ahead_, values_ahead_;
    const Query* first_query_ = nullptr;
    int first_head_ = 0, num_heads_ = 0, head_ = 0;  // head_: of the tile
    int num_rows_ = 0;                               // of each head
    int first_looking_ = 0, num_looking_ = 0;        // of these rows, those that see the chunk
    bool has_queries_ = false;
};
