// Products in tiles, on processors that have them (AMX: Intel's since Sapphire Rapids); the loops are in tile_products.h.
//
// Tiles and vectors sum in unlike orders. So a process uses tiles for all its products or for none, and whatever the
// number of rows: a token's bits must not depend on it.

#pragma once

#include "simd.h"

// Whether this process multiplies in tiles. Set once, before the first product.
extern bool uses_tiles;

// What multiply_pairs() of linear.h promises.
void multiply_in_tiles(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                       float* sums, bool continues);

void release_tiles();

// While a thread's tiles are in use, the system saves 8 KiB more whenever it puts the thread off its core. After this they
// are not.
class TileUse {
  public:
    TileUse() = default;
    TileUse(const TileUse&) = delete;
    TileUse& operator=(const TileUse&) = delete;
    ~TileUse() {
        if (uses_tiles) release_tiles();
    }
};
