// Decoder layers in bfloat16: norm, q-k-v, positions, attention, output; norm, gate and up, silu, down; around a stream.
//
// One team of threads goes through it all, sharing each phase (team.h). Every value is rounded to bfloat16 where a
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
    // Where only some rows' last tokens are wanted: how many of the rows before, (rows + 1). Null: every token is.
    const int32_t* wanted_starts;
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

// The rows' last tokens that are wanted, as if their keys had long been in the pool, and no others.
AttentionBatch wanted_batch(const LayerBatch& batch) {
    AttentionBatch wanted = *batch.attention;
    wanted.row_starts = batch.wanted_starts;
    wanted.num_tokens = batch.wanted_starts[wanted.num_rows];
    return wanted;
}

// Buffers of one forward pass, kept by the thread that calls. Their pages are mapped once.
struct Buffers {
    std::vector<BFloat16> normed, qkv, attended, gate_up, gated, summands, wanted_stream, wanted_queries;
    std::vector<ByteGroup> bytes;
    std::vector<Work> works;  // one a window
    Work wanted_work;         // of the tokens that are wanted, in the last layer

    void fit(const LayerWeights* layers, int num_layers, const LayerBatch& batch) {
        const int64_t num_tokens = batch.attention->num_tokens;
        const LayerWeights& layer = layers[0];
        const AttentionShape& shape = *layer.shape;
        grown(normed, num_tokens * layer.hidden_size);
        grown(qkv, num_tokens * (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
        grown(attended, num_tokens * shape.num_heads * shape.head_dim);
        grown(gate_up, num_tokens * layer.gate_up.num_outputs);
        grown(gated, num_tokens * layer.down.num_inputs);
        grown(summands, num_tokens * layer.hidden_size);
        int64_t num_groups = 0;
        for (const Matrix* matrix : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
            if (wants_bytes(*matrix)) num_groups = std::max(num_groups, Rows::groups_a_row(*matrix));
        grown(bytes, num_tokens * num_groups);
        for (Work& work : works) work.window = -1;
        for (int index = 0; index < num_layers; index++) {
            Work& work = work_of(layers[index].shape->window);
            if (work.window >= 0) continue;
            plan_work(*batch.attention, *layers[index].shape, work);
            work.window = layers[index].shape->window;
        }
    }

    void fit_wanted(const LayerWeights& last, const LayerBatch& batch) {
        const AttentionBatch wanted = wanted_batch(batch);
        grown(wanted_stream, int64_t(wanted.num_tokens) * last.hidden_size);
        grown(wanted_queries, int64_t(wanted.num_tokens) * last.shape->num_heads * last.shape->head_dim);
        if (wanted.num_tokens > 0) plan_work(wanted, *last.shape, wanted_work);
    }

    // That of the window, or one to be planned.
    Work& work_of(int window) {
        for (Work& work : works)
            if (work.window == window) return work;
        for (Work& work : works)
            if (work.window < 0) return work;
        return works.emplace_back();
    }
};

Buffers& buffers() {
    static thread_local Buffers buffers;
    return buffers;
}

// A phase costs more than so many tokens' norms and gates: then every thread computes them for itself.
constexpr int FEW_TOKENS = 2;

// Rows that body(token, outputs) writes, for a product with `matrix`.
template <typename Body>
Rows write_rows_together(Member& member, const Matrix& matrix, int num_tokens, std::vector<BFloat16>& shared,
                         std::vector<ByteGroup>& shared_bytes, const Body& body) {
    static thread_local std::vector<BFloat16> own;
    static thread_local std::vector<ByteGroup> own_bytes;
    const int64_t width = matrix.num_inputs, num_groups = Rows::groups_a_row(matrix);
    const bool is_own = num_tokens <= FEW_TOKENS, in_bytes = wants_bytes(matrix);
    BFloat16* values = is_own ? grown(own, num_tokens * width) : shared.data();
    ByteGroup* bytes = !in_bytes ? nullptr : is_own ? grown(own_bytes, num_tokens * num_groups) : shared_bytes.data();
    each_row(member, num_tokens, is_own, [&](int64_t token) {
        body(token, values + token * width);
        if (in_bytes) round_row(values + token * width, matrix.num_inputs / GROUP, LARGE, bytes + token * num_groups);
    });
    return {values, width, bytes};
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

int64_t qkv_stride(const LayerWeights& layer) {
    return int64_t(layer.shape->num_heads + 2 * layer.shape->num_kv_heads) * layer.shape->head_dim;
}

// New keys and values also go to the pool.
void rotate_together(Member& member, const LayerWeights& layer, const LayerBatch& batch, BFloat16* qkv,
                     int64_t stride) {
    const AttentionShape& shape = *layer.shape;
    const int64_t query_size = int64_t(shape.num_heads) * shape.head_dim;
    const int64_t key_size = int64_t(shape.num_kv_heads) * shape.head_dim;
    member.share(batch.attention->num_tokens, [&](int64_t token, const MayWrite& may_write) {
        if (!may_write()) return;
        const int64_t angle = token * batch.rotary_dim;
        BFloat16* here = qkv + token * stride;
        for (int head = 0; head < shape.num_heads + shape.num_kv_heads; head++) {
            BFloat16* vector = here + head * shape.head_dim;
            const BFloat16* norm = head < shape.num_heads ? layer.query_norm : layer.key_norm;
            if (norm) normalise(vector, norm, layer.eps, shape.head_dim, vector);
            rotate(vector, batch.cosines + angle, batch.sines + angle, batch.rotary_dim);
        }
        const int64_t slot = batch.attention->out_slots[token];
        std::memcpy(static_cast<BFloat16*>(shape.key_pool) + slot * key_size, here + query_size,
                    key_size * sizeof(BFloat16));
        std::memcpy(static_cast<BFloat16*>(shape.value_pool) + slot * key_size, here + query_size + key_size,
                    key_size * sizeof(BFloat16));
    });
}

void gate(const BFloat16* gate, const BFloat16* up, int count, BFloat16* outputs) {
    for (int index = 0; index < count; index += LANES) {
        const Floats values = load(gate + index);
        const Floats silu = values / (1.0f + exponential(-values));
        store(outputs + index, silu * load(up + index));
    }
}

// Queries, keys and values of all tokens; the latter two go to the pool.
void project_together(Member& member, const LayerWeights& layer, const LayerBatch& batch, const BFloat16* stream,
                      Buffers& buffers) {
    const int num_tokens = batch.attention->num_tokens, width = layer.hidden_size;
    const Rows normed = write_rows_together(
        member, layer.qkv, num_tokens, buffers.normed, buffers.bytes, [&](int64_t token, BFloat16* to) {
            normalise(stream + token * width, layer.attention_norm, layer.eps, width, to);
        });
    multiply_together(member, layer.qkv, normed, num_tokens, buffers.qkv.data(), qkv_stride(layer), false);
    rotate_together(member, layer, batch, buffers.qkv.data(), qkv_stride(layer));
}

// What queries find, and the output's product of it.
void look_together(Member& member, const LayerWeights& layer, const AttentionBatch& batch, Work& work,
                   const BFloat16* queries, int64_t query_stride, BFloat16* outputs, bool adds, Buffers& buffers) {
    const AttentionShape& shape = *layer.shape;
    const int64_t query_size = int64_t(shape.num_heads) * shape.head_dim;
    BFloat16* attended = buffers.attended.data();
    const AttentionInputs inputs{queries, nullptr, nullptr, attended, query_stride, 0, 0};
    attend_together<BFloat16>(member, batch, shape, inputs, work);
    const Rows rows = round_together(member, layer.out, attended, query_size, batch.num_tokens, LARGE,
                                     buffers.bytes.data());
    multiply_together(member, layer.out, rows, batch.num_tokens, outputs, layer.hidden_size, adds);
}

void attend_block_together(Member& member, const LayerWeights& layer, const LayerBatch& batch,
                           const BFloat16* stream, BFloat16* outputs, bool adds, Buffers& buffers) {
    project_together(member, layer, batch, stream, buffers);
    look_together(member, layer, *batch.attention, buffers.work_of(layer.shape->window), buffers.qkv.data(),
                  qkv_stride(layer), outputs, adds, buffers);
}

void mlp_block_together(Member& member, const LayerWeights& layer, int num_tokens, const BFloat16* stream,
                        BFloat16* outputs, bool adds, Buffers& buffers) {
    const int width = layer.hidden_size;
    const int64_t num_features = layer.down.num_inputs;
    BFloat16* gate_up = buffers.gate_up.data();
    const Rows normed = write_rows_together(
        member, layer.gate_up, num_tokens, buffers.normed, buffers.bytes, [&](int64_t token, BFloat16* to) {
            normalise(stream + token * width, layer.mlp_norm, layer.eps, width, to);
        });
    multiply_together(member, layer.gate_up, normed, num_tokens, gate_up, 2 * num_features, false);
    const Rows gated = write_rows_together(
        member, layer.down, num_tokens, buffers.gated, buffers.bytes, [&](int64_t token, BFloat16* to) {
            const BFloat16* from = gate_up + token * 2 * num_features;
            gate(from, from + num_features, int(num_features), to);
        });
    multiply_together(member, layer.down, gated, num_tokens, outputs, width, adds);
}

// body(index, token) for each token that is wanted.
template <typename Body>
void each_wanted_together(Member& member, const LayerBatch& batch, const Body& body) {
    const int32_t* starts = batch.wanted_starts;
    member.share(batch.attention->num_rows, [&](int64_t row, const MayWrite& may_write) {
        if (may_write() && starts[row + 1] > starts[row]) body(starts[row], batch.attention->row_starts[row + 1] - 1);
    });
}

// Each is rounded by itself, as if they were two operations.
void add_ranks_together(Member& member, Ranks& ranks, uint32_t& exchange, const BFloat16* summands, int64_t count,
                        BFloat16* stream) {
    add_up_together(member, ranks, exchange, summands, count, [&](auto sums, int64_t index) {
        BFloat16* to = stream + index;
        if constexpr (sizeof sums == sizeof(Floats))
            store(to, load(to) + bits_as<Floats>(__builtin_convertvector(bf16_halves(sums), Words) << 16));
        else
            *to = to_bfloat16(to_float(*to) + to_float(to_bfloat16(sums)));
    });
}

// One pass through the layers. A block's outputs are added to the stream, or are this rank's summands of all ranks'.
struct Pass {
    Member& member;
    const LayerBatch& batch;
    Buffers& buffers;
    Ranks* ranks;  // null: this one is alone
    uint32_t exchange;

    bool adds() const { return !ranks; }
    BFloat16* outputs(BFloat16* stream) const { return ranks ? buffers.summands.data() : stream; }
    void add_ranks(const LayerWeights& layer, int64_t num_tokens, BFloat16* stream) {
        if (ranks)
            add_ranks_together(member, *ranks, exchange, buffers.summands.data(), num_tokens * layer.hidden_size, stream);
    }

    void run_mlp(const LayerWeights& layer, int num_tokens, BFloat16* stream) {
        mlp_block_together(member, layer, num_tokens, stream, outputs(stream), adds(), buffers);
        add_ranks(layer, num_tokens, stream);
    }

    void run(const LayerWeights& layer, BFloat16* stream) {
        const int num_tokens = batch.attention->num_tokens;
        attend_block_together(member, layer, batch, stream, outputs(stream), adds(), buffers);
        add_ranks(layer, num_tokens, stream);
        run_mlp(layer, num_tokens, stream);
    }

    // Nobody reads what the last layer makes of other tokens than those that are wanted, but for keys and values.
    void run_last(const LayerWeights& layer, BFloat16* stream) {
        const AttentionBatch wanted = wanted_batch(batch);
        const int64_t width = layer.hidden_size, query_size = int64_t(layer.shape->num_heads) * layer.shape->head_dim;
        project_together(member, layer, batch, stream, buffers);
        if (wanted.num_tokens == 0) return;
        BFloat16 *own = buffers.wanted_stream.data(), *queries = buffers.wanted_queries.data();
        each_wanted_together(member, batch, [&](int64_t index, int64_t token) {
            std::memcpy(own + index * width, stream + token * width, width * sizeof(BFloat16));
            std::memcpy(queries + index * query_size, buffers.qkv.data() + token * qkv_stride(layer),
                        query_size * sizeof(BFloat16));
        });
        look_together(member, layer, wanted, buffers.wanted_work, queries, query_size, outputs(own), adds(), buffers);
        add_ranks(layer, wanted.num_tokens, own);
        run_mlp(layer, wanted.num_tokens, own);
        each_wanted_together(member, batch, [&](int64_t index, int64_t token) {
            std::memcpy(stream + token * width, own + index * width, width * sizeof(BFloat16));
        });
    }
};

}  // namespace

// All layers, the stream in place; if only some tokens are wanted, the others' rows are left as they happen to be. Where
// there are other ranks, each block's outputs are summands, added up by all; then a loss is what it returns.
extern "C" int32_t lockstep_layers(const LayerWeights* layers, int32_t num_layers, const LayerBatch* batch,
                                   BFloat16* stream, Ranks* ranks) {
    Buffers& shared = buffers();
    shared.fit(layers, num_layers, *batch);
    if (batch->wanted_starts) shared.fit_wanted(layers[num_layers - 1], *batch);
    const uint32_t first_exchange = ranks ? ranks->num_exchanges : 0;
    work_together(batch->attention->num_threads, [&](Member& member) {
        Pass pass{member, *batch, shared, ranks, first_exchange};
        for (int layer = 0; layer < num_layers; layer++) {
            if (batch->wanted_starts && layer == num_layers - 1)
                pass.run_last(layers[layer], stream);
            else
                pass.run(layers[layer], stream);
        }
    });
    return ranks ? ranks->loss : NONE;
}

// Half a layer, for ranks that add up their outputs in some other way.
extern "C" void lockstep_attention_block(const LayerWeights* layer, const LayerBatch* batch, const BFloat16* stream,
                                         BFloat16* outputs) {
    Buffers& shared = buffers();
    shared.fit(layer, 1, *batch);
    work_together(batch->attention->num_threads, [&](Member& member) {
        attend_block_together(member, *layer, *batch, stream, outputs, false, shared);
    });
}

extern "C" void lockstep_mlp_block(const LayerWeights* layer, const LayerBatch* batch, const BFloat16* stream,
                                   BFloat16* outputs) {
    Buffers& shared = buffers();
    shared.fit(layer, 1, *batch);
    work_together(batch->attention->num_threads, [&](Member& member) {
        mlp_block_together(member, *layer, batch->attention->num_tokens, stream, outputs, false, shared);
    });
}
