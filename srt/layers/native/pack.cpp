// Weights row by row, (num_outputs, num_inputs), into the order of linear.h and levels.h, and rows out of it again. What a
// last block lacks is zero: `packed` comes zeroed.

#include "linear.h"

namespace {

// As srt/layers/native/library.py declares it. (num_outputs, …): a level an input, a scale or two and a minimum a group,
// factors of both where the format has them. The numbers are what the format packs.
struct Levels {
    const int8_t* levels;
    const void* scales;
    const void* minimums;
    const Float16* scale_factors;
    const Float16* minimum_factors;
};

template <typename Format> struct Packing {
    using Scales = typename Format::Scales;
    using Stored = typename Scales::Stored;
    const Levels& from;
    const int num_groups, first_group;

    void pack_output(int64_t output, char* block) const {
        const int lane = int(output % BLOCK);
        for (int64_t group = 0; group < num_groups; group++)
            pack_group(output * num_groups + group, lane, block + group * Format::GROUP_BYTES);
        if constexpr (Scales::HAS_FACTORS) {
            const int64_t count = Format::num_factors(num_groups, first_group);
            for (int64_t index = 0; index < count; index++) {
                Float16* to = reinterpret_cast<Float16*>(block + num_groups * Format::GROUP_BYTES +
                                                         index * Scales::FACTOR_BYTES);
                to[lane] = from.scale_factors[output * count + index];
                if constexpr (Scales::HAS_MINIMUMS) to[BLOCK + lane] = from.minimum_factors[output * count + index];
            }
        }
    }

    void pack_group(int64_t group, int lane, char* to) const {
        for (int input = 0; input < GROUP; input++)
            Format::Levels::put(to + lane * 4, input, from.levels[group * GROUP + input]);
        Stored* ends = reinterpret_cast<Stored*>(to + Format::Levels::BYTES) + lane;
        for (int step = 0; step < Scales::STEPS; step++)
            ends[step * BLOCK] = static_cast<const Stored*>(from.scales)[group * Scales::STEPS + step];
        if constexpr (Scales::HAS_MINIMUMS)
            ends[Scales::STEPS * BLOCK] = static_cast<const Stored*>(from.minimums)[group];
    }
};

// One output's weights, each rounded once to bfloat16.
template <typename Format>
void unpack_output(const char* block, int lane, int num_groups, int first_group, BFloat16* to) {
    using Scales = typename Format::Scales;
    const int vector = lane / LANES, at = lane % LANES;
    for (int index = 0; index < num_groups; index++) {
        const char* group = block + int64_t(index) * Format::GROUP_BYTES;
        const char* factors = block + int64_t(num_groups) * Format::GROUP_BYTES +
                              (first_group + index) / GROUPS_A_FACTOR * Scales::FACTOR_BYTES;
        const char* scales = group + Format::Levels::BYTES;
        float minimum = 0;
        if constexpr (Scales::HAS_MINIMUMS) minimum = Scales::minimum(scales, factors, vector)[at];
        for (int quad = 0; quad < QUADS; quad++) {
            const float scale = Scales::scale(scales, factors, vector, quad * Scales::STEPS / QUADS)[at];
            const uint32_t levels = Format::Levels::levels(group, vector, quad)[at];
            for (int input = 0; input < 4; input++) {
                const int level = int(levels >> (8 * input) & 0xff) - Format::Levels::OFFSET;
                to[index * GROUP + 4 * quad + input] = to_bfloat16(float(level) * scale + minimum);
            }
        }
    }
}

}  // namespace

extern "C" void lockstep_pack(const BFloat16* weight, int32_t num_outputs, int32_t num_inputs, uint32_t* packed) {
    const int num_pairs = num_inputs / 2;
    for (int64_t output = 0; output < num_outputs; output++) {
        uint32_t* to = packed + output / BLOCK * num_pairs * BLOCK + output % BLOCK;
        for (int64_t pair = 0; pair < num_pairs; pair++)
            std::memcpy(to + pair * BLOCK, weight + output * num_inputs + 2 * pair, sizeof(uint32_t));
    }
}

extern "C" void lockstep_pack_levels(int32_t kind, const Levels* levels, int32_t num_outputs, int32_t num_inputs,
                                     int32_t first_group, char* packed) {
    const int64_t size = block_bytes(kind, num_inputs, first_group);
    with_format(kind, [&](auto format) {
        const Packing<decltype(format)> packing{*levels, num_inputs / GROUP, first_group};
        for (int64_t output = 0; output < num_outputs; output++)
            packing.pack_output(output, packed + output / BLOCK * size);
    });
}

extern "C" int64_t lockstep_packed_bytes(int32_t kind, int32_t num_outputs, int32_t num_inputs, int32_t first_group) {
    return (num_outputs + BLOCK - 1) / BLOCK * block_bytes(kind, num_inputs, first_group);
}

// (count, num_inputs): the weights of some outputs of a matrix that is one part.
extern "C" void lockstep_look_up(const Matrix* matrix, const int64_t* outputs, int32_t count, BFloat16* weights) {
    for (int64_t index = 0; index < count; index++) {
        BFloat16* to = weights + index * matrix->num_inputs;
        const Block block = find_block(*matrix, outputs[index] / BLOCK);
        const int lane = int(outputs[index] % BLOCK);
        if (block.kind == PAIRS_OF_BFLOAT16) {
            for (int64_t pair = 0; pair < matrix->num_inputs / 2; pair++)
                std::memcpy(to + 2 * pair, block.packed + (pair * BLOCK + lane) * 4, 4);
        } else {
            with_format(block.kind, [&](auto format) {
                unpack_output<decltype(format)>(block.packed, lane, matrix->num_inputs / GROUP, matrix->first_group, to);
            });
        }
    }
}
