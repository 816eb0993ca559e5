// The tile instructions of tile_products.h in plain C++, as the operation sections of Intel's manual have them, for
// machines without AMX. What a processor refuses is noted down: the first of it is `fault`.

#pragma once

#include <immintrin.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulated {

struct Tile {
    int num_rows, row_bytes;
    uint8_t rows[16][64];
};

inline thread_local Tile tiles[8];
inline thread_local bool are_configured = false;
inline thread_local const char* fault = nullptr;
inline thread_local bool forgets_odd_inputs = false;  // a processor that is at fault

inline void expect(bool is_right, const char* otherwise) {
    if (!is_right && !fault) fault = otherwise;
}

inline void release() {
    std::memset(tiles, 0, sizeof tiles);
    are_configured = false;
}

inline void load_config(const void* from) {
    const uint8_t* bytes = static_cast<const uint8_t*>(from);
    release();
    expect(bytes[0] == 1 && bytes[1] == 0, "LDTILECFG: another palette or first row");
    for (int index = 2; index < 64; index++) {
        const bool is_reserved = index < 16 || (index >= 32 && index < 48) || index >= 56;
        expect(!is_reserved || bytes[index] == 0, "LDTILECFG: what is reserved is not 0");
    }
    for (int tile = 0; tile < 8; tile++) {
        uint16_t row_bytes;
        std::memcpy(&row_bytes, bytes + 16 + 2 * tile, sizeof row_bytes);
        tiles[tile].row_bytes = row_bytes, tiles[tile].num_rows = bytes[48 + tile];
        expect(row_bytes >= 1 && row_bytes <= 64, "LDTILECFG: row bytes");
        expect(bytes[48 + tile] >= 1 && bytes[48 + tile] <= 16, "LDTILECFG: rows");
    }
    are_configured = true;
}

inline void clear(int tile) {
    expect(are_configured, "TILEZERO without a configuration");
    std::memset(tiles[tile].rows, 0, sizeof tiles[tile].rows);
}

inline void load(int tile, const void* from, int64_t stride) {
    expect(are_configured, "TILELOADD without a configuration");
    clear(tile);
    for (int row = 0; row < tiles[tile].num_rows; row++)
        std::memcpy(tiles[tile].rows[row], static_cast<const char*>(from) + row * stride, tiles[tile].row_bytes);
}

inline void store(int tile, void* to, int64_t stride) {
    expect(are_configured, "TILESTORED without a configuration");
    for (int row = 0; row < tiles[tile].num_rows; row++)
        std::memcpy(static_cast<char*>(to) + row * stride, tiles[tile].rows[row], tiles[tile].row_bytes);
}

// Numbers too small for a normal float count as 0 and become 0. Rounding is to the nearest, ties to even.
inline float flushed(float value) { return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value; }

inline float number(const uint8_t* row, int index) {
    uint16_t half;
    std::memcpy(&half, row + 2 * index, sizeof half);
    const uint32_t bits = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return flushed(value);
}

inline void add_products(int to, int left, int right) {
    Tile &sums = tiles[to], &first = tiles[left], &second = tiles[right];
    expect(are_configured, "TDPBF16PS without a configuration");
    expect(to != left && to != right && left != right, "TDPBF16PS: a tile twice");
    expect(first.num_rows == sums.num_rows && first.row_bytes == 4 * second.num_rows &&
               second.row_bytes == sums.row_bytes && sums.row_bytes % 4 == 0,
           "TDPBF16PS: shapes that do not fit");
    for (int row = 0; row < sums.num_rows; row++) {
        float even[16] = {}, odd[16] = {}, before[16];
        for (int pair = 0; pair < first.row_bytes / 4; pair++) {
            const float even_input = number(first.rows[row], 2 * pair);
            const float odd_input = forgets_odd_inputs ? 0 : number(first.rows[row], 2 * pair + 1);
            for (int output = 0; output < sums.row_bytes / 4; output++) {
                even[output] = flushed(std::fma(even_input, number(second.rows[pair], 2 * output), even[output]));
                odd[output] = flushed(std::fma(odd_input, number(second.rows[pair], 2 * output + 1), odd[output]));
            }
        }
        std::memcpy(before, sums.rows[row], sizeof before);
        for (int output = 0; output < sums.row_bytes / 4; output++)
            before[output] = flushed(flushed(before[output]) + flushed(even[output] + odd[output]));
        std::memcpy(sums.rows[row], before, sizeof before);
    }
}

}  // namespace emulated

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated::load_config
#define _tile_release emulated::release
#define _tile_zero emulated::clear
#define _tile_loadd emulated::load
#define _tile_stored emulated::store
#define _tile_dpbf16ps emulated::add_products
