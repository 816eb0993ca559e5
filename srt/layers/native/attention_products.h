// What attention is about, as srt/layers/native/library.py declares it, and its inner loops.

#pragma once

#include "simd.h"

#include <climits>
#include <cmath>

constexpr int CHUNK = 128;      // positions whose scores are computed at once
constexpr int MAX_ROWS = 96;    // of a tile, unless a single query's group has more
constexpr int NUM_COLUMNS = 4;  // vectors side by side in the inner loops
#if LANES == 16
constexpr int ROWS_AT_ONCE = 6;  // 24 of 32 registers hold sums
constexpr int DIRECT_ROWS = 6;   // of a tile whose keys are not packed first
#else
constexpr int ROWS_AT_ONCE = 3;
constexpr int DIRECT_ROWS = 4;
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
    ChunkState(float* largest, float* weight, float* values) : largest(largest), weight(weight), values(values) {}
};

// Every loop over totals is unrolled, these too: else the compiler keeps them in memory instead of registers.
template <int ROWS, int COLUMNS> inline __attribute__((always_inline)) void clear(Floats (&totals)[ROWS][COLUMNS]) {
#pragma GCC unroll 6
    for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 4
        for (int column = 0; column < COLUMNS; column++) totals[row][column] = Floats{};
}
template <int ROWS, int COLUMNS>
inline __attribute__((always_inline)) void store(float* sums, int sum_stride, const Floats (&totals)[ROWS][COLUMNS]) {
#pragma GCC unroll 6
    for (int row = 0; row < ROWS; row++)
#pragma GCC unroll 4
        for (int column = 0; column < COLUMNS; column++)
            store(sums + row * sum_stride + column * LANES, totals[row][column]);
}

// sums[row][column] += left[row][step] · right[step][column] for some rows and vectors of columns.
template <int ROWS, int COLUMNS, bool PAIRS>
inline __attribute__((always_inline)) void multiply(const float* left, int left_stride, const float* right,
                                                    int right_stride, int num_steps, float* sums, int sum_stride) {
    Floats totals[ROWS][COLUMNS];
    clear(totals);
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
    store(sums, sum_stride, totals);
}

// Rows of memory that will be wanted soon. They are fetched line by line, evenly as work goes on, for a processor has
// few lines under way at a time; and in their order, for neighbours are also read ahead by the processor itself.
class RowsAhead {
  public:
    const char* rows[CHUNK];

    void expect(int num_rows, int num_bytes) {
        num_rows_ = num_rows;
        num_bytes_ = num_bytes;
        row_ = byte_ = due_ = 0;
    }
    // Until all are fetched, so much will be done.
    void plan(int work) { rate_ = int64_t(num_rows_) * ((num_bytes_ + LINE - 1) / LINE) * ONE / work + 1; }

    inline __attribute__((always_inline)) void advance(int work) {
        due_ += work * rate_;
        for (; due_ >= ONE && row_ < num_rows_; due_ -= ONE) {
            __builtin_prefetch(rows[row_] + byte_, 0, 2);
            byte_ += LINE;
            if (byte_ >= num_bytes_) {
                byte_ = 0;
                row_++;
            }
        }
    }

  private:
    static constexpr int LINE = 64;
    static constexpr int64_t ONE = 1 << 16;
    int num_rows_ = 0, num_bytes_ = 0, row_ = 0, byte_ = 0;
    int64_t rate_ = 0, due_ = 0;  // in parts of ONE line
};

// sums[row][…] += weights[row][position] · values[position][…], the values read where they are. `ahead` may
// be null.
template <int ROWS, int COLUMNS, typename Value>
inline __attribute__((always_inline)) void weigh(const float* weights, const Value* const* value_rows,
                                                 RowsAhead* ahead, int offset, int num_positions, float* sums,
                                                 int sum_stride) {
    Floats totals[ROWS][COLUMNS];
    clear(totals);
#if USE_BF16_DOT
    if constexpr (Products<Value>::are_pairs) {
        static_assert(COLUMNS % 2 == 0, "a vector of 32 values fills two of sums");
        for (int position = 0; position < num_positions; position += 2) {
            if (ahead) ahead->advance(2);
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
            if (ahead) ahead->advance(1);
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
    store(sums, sum_stride, totals);
}

// STEPS steps of LANES keys: a step is a value, or a pair of bfloat16 that looks like a float.
#if LANES == 16
constexpr int STEPS = 8;

inline __m512 steps_of_two(const float* first, const float* second) {
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(_mm256_loadu_ps(first))),
                           _mm256_castps_pd(_mm256_loadu_ps(second)), 1));
}
inline __m256i eight_halves(const void* from) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
inline __m512 steps_of_two(const BFloat16* first, const BFloat16* second) {
    if constexpr (Products<BFloat16>::are_pairs)
        return steps_of_two(reinterpret_cast<const float*>(first), reinterpret_cast<const float*>(second));
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(eight_halves(first)), eight_halves(second), 1);
    return _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
}
inline __m512 steps_of_two(const Float16* first, const Float16* second) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
    return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
}
#else
constexpr int STEPS = LANES;
#endif

// STEPS steps of LANES rows become vectors of one step each.
template <typename Value>
inline __attribute__((always_inline)) void transpose(const Value* const* rows, int offset, Floats* steps) {
#if LANES == 16
    // Each vector begins with the steps of a row and of the row four further on, so that they end in order.
    __m512 a[8], b[8];
#pragma GCC unroll 8
    for (int row = 0; row < 8; row++) {
        const int first = row % 4 + row / 4 * 8;
        a[row] = steps_of_two(rows[first] + offset, rows[first + 4] + offset);
    }
#pragma GCC unroll 4
    for (int row = 0; row < 8; row += 2) {
        b[row] = _mm512_unpacklo_ps(a[row], a[row + 1]);
        b[row + 1] = _mm512_unpackhi_ps(a[row], a[row + 1]);
    }
#pragma GCC unroll 2
    for (int row = 0; row < 8; row += 4) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const __m512d low = _mm512_castps_pd(b[row + half]), high = _mm512_castps_pd(b[row + half + 2]);
            a[row + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[row + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
#pragma GCC unroll 4
    for (int step = 0; step < 4; step++) {
        steps[step] = bits_as<Floats>(_mm512_shuffle_f32x4(a[step], a[step + 4], 0x88));
        steps[step + 4] = bits_as<Floats>(_mm512_shuffle_f32x4(a[step], a[step + 4], 0xdd));
    }
#else
    for (int row = 0; row < LANES; row++) {
        Floats one;
        if constexpr (Products<Value>::are_pairs)
            one = load(reinterpret_cast<const float*>(rows[row] + offset));
        else
            one = load(rows[row] + offset);
        for (int step = 0; step < LANES; step++) steps[step][row] = one[step];
    }
#endif
}
