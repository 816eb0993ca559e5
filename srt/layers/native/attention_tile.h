// `TileAttention`: some neighbouring queries of one row, for the heads that share one key-value head.
//
// A tile's rows are (query, head of the group) pairs, query by query. What it sees is added chunk by chunk.

#pragma once

#include "simd.h"

#include <cmath>

constexpr int CHUNK = 128;      // positions whose scores are computed at once
constexpr int MAX_ROWS = 96;    // of a tile, unless a single query's group has more
constexpr int NUM_COLUMNS = 4;  // vectors side by side in the inner loops
#if LANES == 16
constexpr int ROWS_AT_ONCE = 6;  // 24 of 32 registers hold sums
#else
constexpr int ROWS_AT_ONCE = 3;
#endif

enum ValueType : int32_t { FLOAT32 = 0, BFLOAT16 = 1, FLOAT16 = 2 };

// The three structs of a call, as srt/layers/native/library.py declares them.
struct AttentionBatch {
    const int32_t* row_starts;
    const int32_t* seq_lens;
    const int32_t* slot_table;
    int64_t table_stride;
    const int64_t* out_slots;
    int32_t num_rows, num_tokens, num_threads;
};

struct AttentionShape {
    void* key_pool;
    void* value_pool;
    int32_t num_heads, num_kv_heads, head_dim;
    int32_t window;  // 0: none
    float scale;
    float soft_cap;  // 0: none
    int32_t value_type;
};

struct AttentionInputs {  // strides in values, from token to token; heads are contiguous
    const void* queries;
    const void* keys;
    const void* values;
    void* outputs;
    int64_t query_stride, key_stride, value_stride;
};

template <typename Value> struct Products {
    static constexpr bool are_pairs = false;
};
#if USE_BF16_DOT
template <> struct Products<BFloat16> {
    static constexpr bool are_pairs = true;  // of neighbouring values, in one 32-bit lane
};
#endif

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }
inline int padded_head_dim(int head_dim) { return round_up(head_dim, 32); }
inline int state_floats(int num_rows, int head_dim) { return num_rows * (padded_head_dim(head_dim) + 2); }

// Sums over a chunk: for each row the largest score, the sum of weights, and the weighted values.
struct ChunkState {
    float* largest;
    float* weight;
    float* values;  // (rows, padded head_dim), in the order in which the inner loop leaves them

    ChunkState(float* buffer, int max_rows)
        : largest(buffer), weight(buffer + max_rows), values(buffer + 2 * max_rows) {}
};

// sums[row][column] += left[row][step] · right[step][column] for some rows and vectors of columns.
template <int ROWS, int COLUMNS, bool PAIRS>
inline __attribute__((always_inline)) void multiply(const float* left, int left_stride, const float* right,
                                                    int right_stride, int num_steps, float* sums, int sum_stride) {
    Floats totals[ROWS][COLUMNS];
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) totals[row][column] = Floats{};
    for (int step = 0; step < num_steps; step++) {
        Floats factors[COLUMNS];
#pragma GCC unroll 4
        for (int column = 0; column < COLUMNS; column++)
            factors[column] = load(right + size_t(step) * right_stride + column * LANES);
#pragma GCC unroll 6
        for (int row = 0; row < ROWS; row++) {
            const float factor = left[row * left_stride + step];
#pragma GCC unroll 4
            for (int column = 0; column < COLUMNS; column++) {
#if USE_BF16_DOT
                if constexpr (PAIRS) {
                    totals[row][column] = bits_as<Floats>(
                        _mm512_dpbf16_ps(bits_as<__m512>(totals[row][column]), bits_as<__m512bh>(factors[column]),
                                         bits_as<__m512bh>(all(factor))));
                    continue;
                }
#endif
                totals[row][column] += factors[column] * all(factor);
            }
        }
    }
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            store(sums + row * sum_stride + column * LANES, totals[row][column]);
}

// sums[row][…] += weights[row][position] · values[position][…], the values read where they are.
template <int ROWS, int COLUMNS, typename Value>
inline __attribute__((always_inline)) void weigh(const float* weights, const Value* const* value_rows, int offset,
                                                 int num_positions, float* sums, int sum_stride) {
    Floats totals[ROWS][COLUMNS];
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) totals[row][column] = Floats{};
#if USE_BF16_DOT
    if constexpr (Products<Value>::are_pairs) {
        static_assert(COLUMNS % 2 == 0, "a vector of 32 values fills two of sums");
        for (int position = 0; position < num_positions; position += 2) {
            Floats factors[COLUMNS];
#pragma GCC unroll 2
            for (int column = 0; column < COLUMNS; column += 2) {
                const __m512i first = _mm512_loadu_si512(value_rows[position] + offset + column * LANES);
                const __m512i second = _mm512_loadu_si512(value_rows[position + 1] + offset + column * LANES);
                factors[column] = bits_as<Floats>(_mm512_unpacklo_epi16(first, second));
                factors[column + 1] = bits_as<Floats>(_mm512_unpackhi_epi16(first, second));
            }
#pragma GCC unroll 6
            for (int row = 0; row < ROWS; row++) {
                const Floats weight = all(weights[row * CHUNK + position / 2]);
#pragma GCC unroll 4
                for (int column = 0; column < COLUMNS; column++)
                    totals[row][column] = bits_as<Floats>(
                        _mm512_dpbf16_ps(bits_as<__m512>(totals[row][column]), bits_as<__m512bh>(factors[column]),
                                         bits_as<__m512bh>(weight)));
            }
        }
    } else
#endif
    {
        for (int position = 0; position < num_positions; position++) {
            Floats factors[COLUMNS];
#pragma GCC unroll 4
            for (int column = 0; column < COLUMNS; column++)
                factors[column] = load(value_rows[position] + offset + column * LANES);
#pragma GCC unroll 6
            for (int row = 0; row < ROWS; row++) {
                const float weight = weights[row * CHUNK + position];
#pragma GCC unroll 4
                for (int column = 0; column < COLUMNS; column++) totals[row][column] += factors[column] * weight;
            }
        }
    }
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            store(sums + row * sum_stride + column * LANES, totals[row][column]);
}


template <typename Value> class TileAttention {
  public:
    static constexpr bool PAIRS = Products<Value>::are_pairs;
    static constexpr int UNIT = PAIRS ? 32 : LANES;  // values that the inner loops take at a time

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
    void start(int row, int kv_head, int first_query, int num_queries) {
        row_ = row;
        kv_head_ = kv_head;
        num_rows_ = num_queries * group_;
        first_token_ = batch_.row_starts[row] + first_query;
        const int num_new = batch_.row_starts[row + 1] - batch_.row_starts[row];
        first_position_ = batch_.seq_lens[row] - num_new + first_query;
        for (int index = 0; index < num_rows_; index++) total_.weight[index] = 0;
        has_queries_ = false;
    }

    void add_chunk(int chunk) {
        if (!has_queries_) pack_queries();
        const int start = chunk * CHUNK;
        const int last_position = first_position_ + num_rows_ / group_ - 1;
        const int num_seen = last_position + 1 - start < CHUNK ? last_position + 1 - start : CHUNK;
        find_values(start, num_seen);
        pack_keys(num_seen);
        score(num_seen);
        for (int row = 0; row < num_rows_; row++) soften(row, start, num_seen);
        sum_values(num_seen);
        merge(chunk_);
    }

    void merge(float* partial) { merge(ChunkState(partial, max_rows_)); }

    void save(float* partial) const {
        ChunkState to(partial, max_rows_);
        std::memcpy(to.largest, total_.largest, num_rows_ * sizeof(float));
        std::memcpy(to.weight, total_.weight, num_rows_ * sizeof(float));
        std::memcpy(to.values, total_.values, size_t(num_rows_) * width_ * sizeof(float));
    }

    void write_output() const {
        for (int row = 0; row < num_rows_; row++) {
            const size_t token = first_token_ + row / group_;
            Value* output = static_cast<Value*>(inputs_.outputs) +
                            (token * shape_.num_heads + kv_head_ * group_ + row % group_) * shape_.head_dim;
            const float* values = total_.values + size_t(row) * width_;
            const Floats factor = all(1.0f / total_.weight[row]);
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
        for (int row = 0; row < num_rows_; row++) {
            const Value* from = static_cast<const Value*>(inputs_.queries) +
                                (first_token_ + row / group_) * inputs_.query_stride +
                                size_t(kv_head_ * group_ + row % group_) * shape_.head_dim;
            float* to = queries_ + size_t(row) * num_steps_;
            if constexpr (PAIRS) {
                if (shape_.head_dim % 2) to[num_steps_ - 1] = 0;
                std::memcpy(to, from, shape_.head_dim * sizeof(Value));
            } else {
                for (int index = 0; index < shape_.head_dim; index++) to[index] = to_float(from[index]);
            }
        }
    }

    size_t place(int position) const {
        const int32_t slot = batch_.slot_table[row_ * batch_.table_stride + position];
        return (size_t(slot) * shape_.num_kv_heads + kv_head_) * shape_.head_dim;
    }

    void find_values(int start, int num_seen) {
        const Value* pool = static_cast<const Value*>(shape_.value_pool);
        const Value* keys = static_cast<const Value*>(shape_.key_pool);
        Value* padded = reinterpret_cast<Value*>(padded_values_);
        for (int index = 0; index < num_seen; index++) {
            const size_t at = place(start + index);
            key_rows_[index] = keys + at;
            value_rows_[index] = pool + at;
            for (size_t line = 0; line < shape_.head_dim * sizeof(Value); line += 64) {
                __builtin_prefetch(reinterpret_cast<const char*>(keys + at) + line);
                __builtin_prefetch(reinterpret_cast<const char*>(pool + at) + line, 0, 2);
            }
            if (width_ != shape_.head_dim) {
                Value* row = padded + size_t(index) * width_;
                std::memcpy(row, pool + at, shape_.head_dim * sizeof(Value));
                std::memset(row + shape_.head_dim, 0, (width_ - shape_.head_dim) * sizeof(Value));
                value_rows_[index] = row;
            }
        }
        // A pair's second half may lie beyond the end; its weight is 0.
        value_rows_[num_seen] = value_rows_[num_seen - 1];
    }

    // keys_[step][position]: positions stand side by side in a vector.
    void pack_keys(int num_seen) {
        const int num_packed = round_up(num_seen, LANES);
        for (int index = num_seen; index < num_packed; index++) key_rows_[index] = key_rows_[num_seen - 1];
        constexpr int values_a_step = PAIRS ? 2 : 1;
        for (int position = 0; position < num_packed; position += LANES) {
            int step = 0;
            for (; (step + LANES) * values_a_step <= shape_.head_dim; step += LANES)
                transpose(key_rows_ + position, step * values_a_step, keys_ + size_t(step) * CHUNK + position);
            for (; step < num_steps_; step++) {
                for (int lane = 0; lane < LANES; lane++)
                    keys_[size_t(step) * CHUNK + position + lane] =
                        key_step(key_rows_[position + lane] + step * values_a_step,
                                 shape_.head_dim - step * values_a_step);
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

    static Floats key_steps(const Value* key) {
        if constexpr (PAIRS)
            return load(reinterpret_cast<const float*>(key));
        else
            return load(key);
    }

    static void transpose(const Value* const* rows, int offset, float* to) {
#if LANES == 16
        __m512 a[16], b[16];
        for (int row = 0; row < 16; row++) a[row] = bits_as<__m512>(key_steps(rows[row] + offset));
        for (int row = 0; row < 16; row += 2) {
            b[row] = _mm512_unpacklo_ps(a[row], a[row + 1]);
            b[row + 1] = _mm512_unpackhi_ps(a[row], a[row + 1]);
        }
        for (int row = 0; row < 16; row += 4) {
            for (int half = 0; half < 2; half++) {
                const __m512d low = bits_as<__m512d>(b[row + half]), high = bits_as<__m512d>(b[row + half + 2]);
                a[row + 2 * half] = bits_as<__m512>(_mm512_unpacklo_pd(low, high));
                a[row + 2 * half + 1] = bits_as<__m512>(_mm512_unpackhi_pd(low, high));
            }
        }
        for (int row = 0; row < 4; row++) {
            b[row] = _mm512_shuffle_f32x4(a[row], a[row + 4], 0x88);
            b[row + 4] = _mm512_shuffle_f32x4(a[row], a[row + 4], 0xdd);
            b[row + 8] = _mm512_shuffle_f32x4(a[row + 8], a[row + 12], 0x88);
            b[row + 12] = _mm512_shuffle_f32x4(a[row + 8], a[row + 12], 0xdd);
        }
        for (int row = 0; row < 8; row++) {
            _mm512_storeu_ps(to + row % 4 * CHUNK + row / 4 * 4 * CHUNK, _mm512_shuffle_f32x4(b[row], b[row + 8], 0x88));
            _mm512_storeu_ps(to + row % 4 * CHUNK + (row / 4 * 4 + 8) * CHUNK,
                             _mm512_shuffle_f32x4(b[row], b[row + 8], 0xdd));
        }
#else
        for (int row = 0; row < LANES; row++) {
            const Floats steps = key_steps(rows[row] + offset);
            for (int step = 0; step < LANES; step++) to[step * CHUNK + row] = steps[step];
        }
#endif
    }

    void score(int num_seen) {
        const int num_vectors = (num_seen + LANES - 1) / LANES;
        for (int first = 0; first < num_vectors; first += NUM_COLUMNS) {
            const int columns = num_vectors - first < NUM_COLUMNS ? num_vectors - first : NUM_COLUMNS;
            for (int row = 0; row < num_rows_; row += ROWS_AT_ONCE) {
                const int rows = num_rows_ - row < ROWS_AT_ONCE ? num_rows_ - row : ROWS_AT_ONCE;
                with_constant<ROWS_AT_ONCE>(rows, [&](auto num_rows) {
                    with_constant<NUM_COLUMNS>(columns, [&](auto num_columns) {
                        multiply<num_rows, num_columns, PAIRS>(queries_ + size_t(row) * num_steps_, num_steps_,
                                                               keys_ + first * LANES, CHUNK, num_steps_,
                                                               scores_ + row * CHUNK + first * LANES, CHUNK);
                    });
                });
            }
        }
    }

    // A row's scores become weights, and 0 where it must not look.
    void soften(int row, int start, int num_seen) {
        float* scores = scores_ + row * CHUNK;
        const int position = first_position_ + row / group_;
        const int end = position + 1 - start;  // the first that lies in the future
        const int begin = shape_.window ? position + 1 - shape_.window - start : 0;
        const int num_vectors = (num_seen + LANES - 1) / LANES;
        Ints lanes;
        for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
        Floats top = all(-INFINITY);
        for (int vector = 0; vector < num_vectors; vector++) {
            const Ints at = lanes + vector * LANES;
            Floats values = load(scores + vector * LANES) * shape_.scale;
            if (shape_.soft_cap > 0) values = capped(values);
            values = ((at >= begin) & (at < end)) ? values : all(-INFINITY);
            store(scores + vector * LANES, values);
            top = larger(top, values);
        }
        const float most = largest(top);
        chunk_.largest[row] = most;
        Floats total{};
        for (int vector = 0; vector < num_vectors; vector++) {
            // Where nothing is seen, −∞ − −∞ would be no number.
            Floats weights = most == -INFINITY ? Floats{} : exponential(load(scores + vector * LANES) - most);
            if constexpr (PAIRS) {
                const Halves rounded = bf16_halves(weights);
                std::memcpy(reinterpret_cast<uint16_t*>(scores) + vector * LANES, &rounded, sizeof rounded);
                weights = bits_as<Floats>(__builtin_convertvector(rounded, Words) << 16);
            } else {
                store(scores + vector * LANES, weights);
            }
            total += weights;
        }
        chunk_.weight[row] = sum(total);
    }

    Floats capped(Floats values) const {
        // tanh x = 1 − 2 / (e^2x + 1), with |x| so small that its exponential is finite.
        Floats x = values * (1.0f / shape_.soft_cap);
        x = x > 20.0f ? all(20.0f) : x;
        x = larger(x, all(-20.0f));
        const Floats tanh = 1.0f - 2.0f / (exponential(x + x) + 1.0f);
        return tanh * shape_.soft_cap;
    }

    void sum_values(int num_seen) {
        constexpr int step = PAIRS ? 2 : 1;
        for (int start = 0; start < width_; start += NUM_COLUMNS * LANES) {
            const int left = (width_ - start) / LANES;
            for (int row = 0; row < num_rows_; row += ROWS_AT_ONCE) {
                const int rows = num_rows_ - row < ROWS_AT_ONCE ? num_rows_ - row : ROWS_AT_ONCE;
                with_constant<ROWS_AT_ONCE>(rows, [&](auto num_rows) {
                    with_constant<NUM_COLUMNS / step>(left / step, [&](auto num_units) {
                        weigh<num_rows, num_units * step, Value>(scores_ + row * CHUNK, value_rows_, start, num_seen,
                                                                 chunk_.values + size_t(row) * width_ + start, width_);
                    });
                });
            }
        }
    }

    void merge(const ChunkState& chunk) {
        for (int row = 0; row < num_rows_; row++) {
            if (chunk.weight[row] == 0) continue;
            const float* from = chunk.values + size_t(row) * width_;
            float* to = total_.values + size_t(row) * width_;
            if (total_.weight[row] == 0) {
                total_.largest[row] = chunk.largest[row];
                total_.weight[row] = chunk.weight[row];
                std::memcpy(to, from, width_ * sizeof(float));
                continue;
            }
            const float before = total_.largest[row], most = before > chunk.largest[row] ? before : chunk.largest[row];
            const float keep = exponential(all(before - most))[0], take = exponential(all(chunk.largest[row] - most))[0];
            total_.largest[row] = most;
            total_.weight[row] = total_.weight[row] * keep + chunk.weight[row] * take;
            for (int start = 0; start < width_; start += LANES)
                store(to + start, load(to + start) * keep + load(from + start) * take);
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
    int row_ = 0, kv_head_ = 0, num_rows_ = 0, first_token_ = 0, first_position_ = 0;
    bool has_queries_ = false;
};
