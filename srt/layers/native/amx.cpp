// Whether products are computed in tiles, and those products. On a machine without AMX there is nothing in it.

#include "amx.h"

#include "linear.h"

bool uses_tiles = false;

// The numbers are those of srt/layers/native/library.py; what is below 0 is the system's error.
enum TilesFound : int32_t { NO_TILES, TILES, WRONG_TILES };

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && LANES == 16 && defined(__linux__)

#include "tile_products.h"

#include <cerrno>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM and what it is for, in asm/prctl.h

bool processor_has_tiles() {
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) && (d >> 22 & 1);  // AMX-TILE and AMX-BF16
}

int32_t find_tiles() {
    if (!processor_has_tiles()) return NO_TILES;
    // For all threads of the process: without it, the first of these instructions would be the last.
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0) return -errno;
    return tiles_agree_with_vectors() ? TILES : WRONG_TILES;
}

}  // namespace

void multiply_in_tiles(const BFloat16* inputs, int64_t stride, int num_rows, const uint32_t* packed, int num_pairs,
                       float* sums, bool continues) {
    multiply_tiles(inputs, stride, num_rows, packed, num_pairs, sums, continues);
}

void release_tiles() { unshape_tiles(); }

#else

namespace {

int32_t find_tiles() { return NO_TILES; }
void repeat_tiles(const BFloat16*, int64_t, const uint32_t*, int, int) {}

}  // namespace

void multiply_in_tiles(const BFloat16*, int64_t, int, const uint32_t*, int, float*, bool) {}

void release_tiles() {}

#endif

// To be called before the first product. Tiles that nobody wants are looked for, too.
extern "C" int32_t lockstep_start_tiles(int32_t is_wanted) {
    static const int32_t found = find_tiles();
    uses_tiles = is_wanted && found == TILES;
    return found;
}

// Products on data in the nearest cache, again and again, for benchmarks: how many operations that was.
extern "C" int64_t lockstep_repeat_products(int32_t count) {
    constexpr int NUM_ROWS = 32, NUM_PAIRS = 64;
    alignas(64) static BFloat16 inputs[NUM_ROWS * 2 * NUM_PAIRS];
    alignas(64) static uint32_t packed[NUM_PAIRS * BLOCK];
    float sums[NUM_ROWS * BLOCK];
    if (uses_tiles) {
        repeat_tiles(inputs, 2 * NUM_PAIRS, packed, NUM_PAIRS, count);
    } else {
        for (int index = 0; index < count; index++) {
            multiply_in_vectors(inputs, 2 * NUM_PAIRS, NUM_ROWS, packed, NUM_PAIRS, sums);
            asm volatile("" ::"r"(sums) : "memory");  // somebody might read them
        }
    }
    return int64_t(count) * NUM_ROWS * BLOCK * 4 * NUM_PAIRS;
}
