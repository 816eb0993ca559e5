// Decoder layers in bfloat16: norm, q-k-v, positions, attention, output; norm, gate and up, silu, down; around a stream.
//
// One team of threads goes through it all and meets at barriers. Every value is rounded to bfloat16 where a
// tensor would be stored, and every sum is float32. A token's bits do not depend on the tokens beside it.

#include "attention.h"
#include "linear.h"
#include "ranks.h"

#include <cmath>

// The structs of a call, as srt/layers/native/library.py declares them.
struct LayerWeights {
    Matrix qkv, out, gate_up, down;
    const BFloat16* attention_norm;
    const BFloat16* mlp_norm;
    const BFloat16* query_norm;  // null: none
    const BFloat16* key_norm;
    const AttentionShape* shape;
    float eps;
    int32_t hidden_size;
};

struct LayerBatch {
    const AttentionBatch* attention;
    const BFloat16* cosines;  // (T, rotary_dim), as srt/layers/rotary.py makes them
    const BFloat16* sines;
    int32_t rotary_dim;
};

namespace {

void normalise(const BFloat16* inputs, const BFloat16* weight, float eps, int width, BFloat16* outputs) {
    Floats squares{};
    for (int start = 0; start < width; start += LANES) {
        const Floats values = load(inputs + start);
        squares += values * values;
    }
    const float factor = 1.0f / std::sqrt(sum(squares) / float(width) + eps);
    for (int start = 0; start < width; start += LANES)
        store(outputs + start, load(inputs + start) * factor * load(weight + start));
}

// A barrier costs more than so many tokens' norms and gates: then every thread computes them for itself.
constexpr int FEW_TOKENS = 2;

// To be called by every thread of a team, as all that ends in _together. Gives what this thread may read.
const BFloat16* normalise_together(const BFloat16* stream, const BFloat16* weight, const LayerWeights& layer,
                                   int num_tokens, BFloat16* shared) {
    const int64_t width = layer.hidden_size;
    if (num_tokens <= FEW_TOKENS) {
        static thread_local std::vector<BFloat16> own;
        BFloat16* outputs = grown(own, num_tokens * width);
        for (int64_t token = 0; token < num_tokens; token++)
            normalise(stream + token * width, weight, layer.eps, int(width), outputs + token * width);
        return outputs;
    }
#pragma omp for schedule(static)
    for (int token = 0; token < num_tokens; token++)
        normalise(stream + token * width, weight, layer.eps, int(width), shared + token * width);
    return shared;
}

// Value i turns with value i + rotary_dim / 2; what lies beyond rotary_dim stays. The sines' first half is negated.
void rotate(BFloat16* vector, const BFloat16* cosines, const BFloat16* sines, int rotary_dim) {
    const int half = rotary_dim / 2;
    int index = 0;
    for (; index + LANES <= half; index += LANES) {
        const Floats low = load(vector + index), high = load(vector + half + index);
        store(vector + index, low * load(cosines + index) + high * load(sines + index));
        store(vector + half + index, high * load(cosines + half + index) + low * load(sines + half + index));
    }
    for (; index < half; index++) {
        const float low = to_float(vector[index]), high = to_float(vector[half + index]);
        vector[index] = to_bfloat16(low * to_float(cosines[index]) + high * to_float(sines[index]));
        vector[half + index] =
            to_bfloat16(high * to_float(cosines[half + index]) + low * to_float(sines[half + index]));
    }
}

// Leaves without a barrier: who has rotated a token also writes it to the pool.
void rotate_together(const LayerWeights& layer, const LayerBatch& batch, BFloat16* qkv, int64_t stride) {
    const AttentionShape& shape = *layer.shape;
#pragma omp for schedule(static) nowait
    for (int token = 0; token < batch.attention->num_tokens; token++) {
        const int64_t angle = int64_t(token) * batch.rotary_dim;
        for (int head = 0; head < shape.num_heads + shape.num_kv_heads; head++) {
            BFloat16* vector = qkv + token * stride + head * shape.head_dim;
            const BFloat16* norm = head < shape.num_heads ? layer.query_norm : layer.key_norm;
            if (norm) normalise(vector, norm, layer.eps, shape.head_dim, vector);
            rotate(vector, batch.cosines + angle, batch.sines + angle, batch.rotary_dim);
        }
    }
}

void gate(const BFloat16* gate, const BFloat16* up, int first, int end, BFloat16* outputs) {
    for (int index = first; index < end; index += LANES) {
        const Floats values = load(gate + index);
        const Floats silu = values / (1.0f + exponential(-values));
        store(outputs + index, silu * load(up + index));
    }
}

// The same: gives what this thread may read.
const BFloat16* gate_together(const BFloat16* gate_up, int num_tokens, int64_t num_features, BFloat16* shared) {
    if (num_tokens <= FEW_TOKENS) {
        static thread_local std::vector<BFloat16> own;
        BFloat16* outputs = grown(own, num_tokens * num_features);
        for (int64_t token = 0; token < num_tokens; token++) {
            const BFloat16* from = gate_up + token * 2 * num_features;
            gate(from, from + num_features, 0, int(num_features), outputs + token * num_features);
        }
        return outputs;
    }
    constexpr int piece_size = 256;
    const int num_pieces = int(num_features + piece_size - 1) / piece_size;
#pragma omp for schedule(static)
    for (int piece = 0; piece < num_tokens * num_pieces; piece++) {
        const int64_t token = piece / num_pieces;
        const int first = piece % num_pieces * piece_size;
        const BFloat16* from = gate_up + token * 2 * num_features;
        gate(from, from + num_features, first, std::min(first + piece_size, int(num_features)),
             shared + token * num_features);
    }
    return shared;
}

// Buffers of one forward pass, kept by the thread that calls. Their pages are mapped once.
struct Buffers {
    std::vector<BFloat16> normed, qkv, attended, gate_up, gated, summands;
    Work work;

    void fit(const LayerWeights& layer, int64_t num_tokens) {
        const AttentionShape& shape = *layer.shape;
        grown(normed, num_tokens * layer.hidden_size);
        grown(qkv, num_tokens * (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
        grown(attended, num_tokens * shape.num_heads * shape.head_dim);
        grown(gate_up, num_tokens * layer.gate_up.num_outputs);
        grown(gated, num_tokens * layer.down.num_inputs);
        grown(summands, num_tokens * layer.hidden_size);
    }
};

Buffers& buffers() {
    static thread_local Buffers buffers;
    return buffers;
}

void attend_block_together(const LayerWeights& layer, const LayerBatch& batch, const BFloat16* stream,
                           BFloat16* outputs, bool adds, Buffers& buffers) {
    const AttentionShape& shape = *layer.shape;
    const int num_tokens = batch.attention->num_tokens;
    const int64_t query_size = int64_t(shape.num_heads) * shape.head_dim;
    const int64_t key_size = int64_t(shape.num_kv_heads) * shape.head_dim, stride = query_size + 2 * key_size;
    BFloat16 *qkv = buffers.qkv.data(), *attended = buffers.attended.data();
    const BFloat16* normed =
        normalise_together(stream, layer.attention_norm, layer, num_tokens, buffers.normed.data());
    multiply_together(layer.qkv, normed, layer.hidden_size, num_tokens, qkv, stride, false);
    rotate_together(layer, batch, qkv, stride);
    const AttentionInputs inputs{qkv,    qkv + query_size, qkv + query_size + key_size, attended,
                                 stride, stride,           stride};
    attend_together<BFloat16>(*batch.attention, shape, inputs, buffers.work);
    multiply_together(layer.out, attended, query_size, num_tokens, outputs, layer.hidden_size, adds);
}

void mlp_block_together(const LayerWeights& layer, const LayerBatch& batch, const BFloat16* stream, BFloat16* outputs,
                        bool adds, Buffers& buffers) {
    const int num_tokens = batch.attention->num_tokens, num_features = layer.down.num_inputs;
    BFloat16* gate_up = buffers.gate_up.data();
    const BFloat16* normed = normalise_together(stream, layer.mlp_norm, layer, num_tokens, buffers.normed.data());
    multiply_together(layer.gate_up, normed, layer.hidden_size, num_tokens, gate_up, 2 * num_features, false);
    const BFloat16* gated = gate_together(gate_up, num_tokens, num_features, buffers.gated.data());
    multiply_together(layer.down, gated, num_features, num_tokens, outputs, layer.hidden_size, adds);
}

// Each is rounded by itself, as if they were two operations.
void add_ranks_together(Ranks& ranks, const BFloat16* summands, int64_t count, BFloat16* stream) {
    add_up_together(ranks, summands, count, [&](auto sums, int64_t index) {
        BFloat16* to = stream + index;
        if constexpr (sizeof sums == sizeof(Floats))
            store(to, load(to) + bits_as<Floats>(__builtin_convertvector(bf16_halves(sums), Words) << 16));
        else
            *to = to_bfloat16(to_float(*to) + to_float(to_bfloat16(sums)));
    });
}

}  // namespace

// All layers, the stream in place. Where there are other ranks, each block's outputs are summands, added up by all; then
// a loss is what it returns.
extern "C" int32_t lockstep_layers(const LayerWeights* layers, int32_t num_layers, const LayerBatch* batch,
                                   BFloat16* stream, Ranks* ranks) {
    Buffers& shared = buffers();
    const int64_t num_tokens = batch->attention->num_tokens, count = num_tokens * layers[0].hidden_size;
    shared.fit(layers[0], num_tokens);
    BFloat16* outputs = ranks ? shared.summands.data() : stream;
#pragma omp parallel num_threads(batch->attention->num_threads)
    for (int layer = 0; layer < num_layers; layer++) {
        attend_block_together(layers[layer], *batch, stream, outputs, !ranks, shared);
        if (ranks) add_ranks_together(*ranks, outputs, count, stream);
        mlp_block_together(layers[layer], *batch, stream, outputs, !ranks, shared);
        if (ranks) add_ranks_together(*ranks, outputs, count, stream);
    }
    return ranks ? ranks->loss : NONE;
}

// Half a layer, for ranks that add up their outputs in some other way.
extern "C" void lockstep_attention_block(const LayerWeights* layer, const LayerBatch* batch, const BFloat16* stream,
                                         BFloat16* outputs) {
    Buffers& shared = buffers();
    shared.fit(*layer, batch->attention->num_tokens);
#pragma omp parallel num_threads(batch->attention->num_threads)
    attend_block_together(*layer, *batch, stream, outputs, false, shared);
}

extern "C" void lockstep_mlp_block(const LayerWeights* layer, const LayerBatch* batch, const BFloat16* stream,
                                   BFloat16* outputs) {
    Buffers& shared = buffers();
    shared.fit(*layer, batch->attention->num_tokens);
#pragma omp parallel num_threads(batch->attention->num_threads)
    mlp_block_together(*layer, *batch, stream, outputs, false, shared);
}

extern "C" void lockstep_multiply(const Matrix* matrix, const BFloat16* inputs, int32_t num_rows, BFloat16* outputs,
                                  int32_t num_threads) {
#pragma omp parallel num_threads(num_threads)
    multiply_together(*matrix, inputs, matrix->num_inputs, num_rows, outputs, matrix->num_outputs, false);
}
