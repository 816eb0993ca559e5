// The kernels' products in tiles, for test_tiles.py, on a machine that need not have any.

#include "emulated_tiles.h"

#include "tile_products.h"

bool uses_tiles = false;  // linear.h asks

void multiply_in_tiles(const BFloat16*, int64_t, int, const uint32_t*, int, float*, bool) {}

void release_tiles() {}

// All pairs, panel after panel of so many.
extern "C" void multiply_panels(const BFloat16* inputs, int64_t stride, int32_t num_rows, const uint32_t* packed,
                                int32_t num_pairs, int32_t panel_pairs, float* sums) {
    for (int first = 0; first < num_pairs; first += panel_pairs)
        multiply_tiles(inputs + 2 * first, stride, num_rows, packed + int64_t(first) * BLOCK,
                       std::min(panel_pairs, num_pairs - first), sums, first > 0);
    unshape_tiles();
}

extern "C" bool agrees(bool forgets_odd_inputs) {
    emulated::forgets_odd_inputs = forgets_odd_inputs;
    const bool result = tiles_agree_with_vectors();
    emulated::forgets_odd_inputs = false;
    return result;
}

extern "C" const char* first_fault() { return emulated::fault; }

extern "C" bool tiles_are_in_use() { return emulated::are_configured; }
