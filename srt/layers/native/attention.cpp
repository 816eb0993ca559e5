// Attention of one layer, as srt/layers/native/library.py calls it.

#include "attention.h"

template <typename Value>
static void run(const AttentionBatch& batch, const AttentionShape& shape, const AttentionInputs& inputs) {
    static thread_local Work work;
    Work& shared = work;
    plan_work(batch, shape, shared);
    work_together(batch.num_threads, [&](Member& member) {
        write_new<Value>(member, batch, shape, inputs);
        attend_together<Value>(member, batch, shape, inputs, shared);
    });
}

extern "C" const char* lockstep_instructions() {
#if USE_BF16_DOT
    return "AVX-512 with bfloat16";
#elif LANES == 16
    return "AVX-512";
#elif defined(__AVX2__)
    return "AVX2";
#else
    return "no vector instructions known of";
#endif
}

extern "C" void lockstep_attend(const AttentionBatch* batch, const AttentionShape* shape,
                                const AttentionInputs* inputs) {
    switch (shape->value_type) {
        case FLOAT32: run<float>(*batch, *shape, *inputs); break;
        case BFLOAT16: run<BFloat16>(*batch, *shape, *inputs); break;
        case FLOAT16: run<Float16>(*batch, *shape, *inputs); break;
    }
}
