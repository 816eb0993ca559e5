// Weights row by row, (num_outputs, num_inputs), into the order of linear.h and levels.h. What a last block lacks is zero:
// `packed` comes zeroed.

#include "linear.h"

extern "C" void lockstep_pack(const BFloat16* weight, int32_t num_outputs, int32_t num_inputs, uint32_t* packed) {
    const int num_pairs = num_inputs / 2;
    for (int64_t output = 0; output < num_outputs; output++) {
        uint32_t* to = packed + output / BLOCK * num_pairs * BLOCK + output % BLOCK;
        for (int64_t pair = 0; pair < num_pairs; pair++)
            std::memcpy(to + pair * BLOCK, weight + output * num_inputs + 2 * pair, sizeof(uint32_t));
    }
}

// Levels a byte each; scales and minimums (num_outputs, num_inputs / GROUP).
extern "C" void lockstep_pack_four_bits(const uint8_t* levels, const Float16* scales, const Float16* minimums,
                                        int32_t num_outputs, int32_t num_inputs, char* packed) {
    const int64_t num_groups = num_inputs / GROUP;
    for (int64_t output = 0; output < num_outputs; output++) {
        for (int64_t group = 0; group < num_groups; group++) {
            char* to = packed + (output / BLOCK * num_groups + group) * FourBits::GROUP_BYTES;
            const uint8_t* from = levels + output * num_inputs + group * GROUP;
            for (int word = 0; word < GROUP / 8; word++) {
                uint32_t value = 0;
                for (int pair = 0; pair < 4; pair++)
                    value |= uint32_t(from[8 * word + 2 * pair]) << (4 * pair) |
                             uint32_t(from[8 * word + 2 * pair + 1]) << (16 + 4 * pair);
                std::memcpy(to + (word * BLOCK + output % BLOCK) * 4, &value, sizeof value);
            }
            Float16* ends = reinterpret_cast<Float16*>(to + FourBits::LEVEL_BYTES);
            ends[output % BLOCK] = scales[output * num_groups + group];
            ends[BLOCK + output % BLOCK] = minimums[output * num_groups + group];
        }
    }
}

extern "C" void lockstep_pack_eight_bits(const int8_t* levels, const Float16* scales, int32_t num_outputs,
                                         int32_t num_inputs, char* packed) {
    const int64_t num_groups = num_inputs / GROUP;
    for (int64_t output = 0; output < num_outputs; output++) {
        for (int64_t group = 0; group < num_groups; group++) {
            char* to = packed + (output / BLOCK * num_groups + group) * EightBits::GROUP_BYTES;
            const int8_t* from = levels + output * num_inputs + group * GROUP;
            for (int pair = 0; pair < GROUP / 2; pair++)
                std::memcpy(to + (pair * BLOCK + output % BLOCK) * 2, from + 2 * pair, 2);
            reinterpret_cast<float*>(to + EightBits::LEVEL_BYTES)[output % BLOCK] =
                to_float(scales[output * num_groups + group]);
        }
    }
}
