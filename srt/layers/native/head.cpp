// The product that gives logits. They stay in float32: rounded to bfloat16, the likeliest few would often be equals.

#include "linear.h"

namespace {

void write_logits(const float* sums, const BFloat16* bias, int count, float* logits) {
    for (int column = 0; column < count; column++) logits[column] = sums[column] + (bias ? to_float(bias[column]) : 0.0f);
}

}  // namespace

// (num_rows, num_outputs) logits.
extern "C" void lockstep_logits(const Matrix* matrix, const BFloat16* inputs, int32_t num_rows, float* logits,
                                int32_t num_threads) {
    static thread_local std::vector<float> buffer;
    const int num_inputs = matrix->num_inputs, num_groups = num_inputs / GROUP;
    const size_t num_sums = wants_sums(*matrix) ? size_t(num_rows) * num_groups : 0;
    if (buffer.size() < num_sums) buffer.resize(num_sums);
    float* shared = num_sums ? buffer.data() : nullptr;
    work_together(num_threads, [&](Member& member) {
        const float* sums =
            shared ? sum_groups_together(member, inputs, num_inputs, num_rows, num_groups, shared) : nullptr;
        multiply_together(member, *matrix, inputs, num_inputs, num_rows, sums,
                          [&](const Block& block, int64_t row, const float* outputs) {
                              write_logits(outputs, matrix->bias ? matrix->bias + block.column : nullptr, block.count,
                                           logits + row * matrix->num_outputs + block.column);
                          });
    });
}
