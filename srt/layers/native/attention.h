// Attention over the paged KV, in place: each row finds its keys and values through its line of the slot table.
//
// Keys are taken in chunks of CHUNK positions, counted from the sequence's start. Within a chunk scores, softmax and
// weighted values are computed at once; chunks are then merged in order, each with its own largest score. So the
// bits of a token's output depend on its own query and on the keys it sees, and on nothing else: not on the rows
// beside it, nor on the tokens computed with it, nor on how the work is shared among threads.
//
// Sums are kept in float32. In bfloat16, where the processor multiplies it, so are the products; the weights of the
// values are rounded to bfloat16 first, and it is the rounded ones that add up to 1.

#pragma once

#include "attention_tile.h"
#include "team.h"

template <typename Value>
void write_new(Member& member, const AttentionBatch& batch, const AttentionShape& shape,
               const AttentionInputs& inputs) {
    const size_t row_size = size_t(shape.num_kv_heads) * shape.head_dim;
    Value* key_pool = static_cast<Value*>(shape.key_pool);
    Value* value_pool = static_cast<Value*>(shape.value_pool);
    member.share(batch.num_tokens, [&](int64_t token, const MayWrite& may_write) {
        if (!may_write()) return;
        const size_t slot = size_t(batch.out_slots[token]);
        std::memcpy(key_pool + slot * row_size,
                    static_cast<const Value*>(inputs.keys) + token * inputs.key_stride,
                    row_size * sizeof(Value));
        std::memcpy(value_pool + slot * row_size,
                    static_cast<const Value*>(inputs.values) + token * inputs.value_stride,
                    row_size * sizeof(Value));
    });
}

// To be called by every thread of a team, when the new keys and values are in the pool.
template <typename Value>
void attend_together(Member& member, const AttentionBatch& batch, const AttentionShape& shape,
                     const AttentionInputs& inputs, Work& work) {
    static thread_local std::vector<float> buffer;
    const size_t scratch_size = TileAttention<Value>::scratch_floats(work.max_rows, shape.head_dim);
    TileAttention<Value> attention(batch, shape, inputs, work.max_rows, grown(buffer, scratch_size));
    const int num_items = int(work.items.size()), num_tiles = int(work.tiles.size());
    const auto expect = [&](const Tile& tile, const Step& step) {
        attention.expect(work.slots_row(tile, step), tile.first_head, step.chunk);
    };
    member.share(num_items, [&](int64_t index, const MayWrite& may_write) {
        const Item& item = work.items[index];
        const Tile& tile = work.tiles[item.tile];
        attention.start(tile, work.queries.data() + tile.first_query);
        for (int step = item.first_step; step < item.end_step; step++) {
            if (step + 1 < item.end_step) {
                expect(tile, work.steps[step + 1]);
            } else {
                const Item& next = work.items[std::min<int64_t>(index + 1, num_items - 1)];
                expect(work.tiles[next.tile], work.steps[next.first_step]);
            }
            attention.add_chunk(work.steps[step]);
        }
        if (!may_write()) return;
        if (item.partial >= 0)
            attention.save(work.partial(item.partial, shape));
        else
            attention.write_output();
    });
    if (work.num_partials == 0) return;
    member.share(num_tiles, [&](int64_t index, const MayWrite& may_write) {
        const Tile& tile = work.tiles[index];
        if (tile.first_partial < 0) {
            may_write();
            return;
        }
        attention.start(tile, work.queries.data() + tile.first_query);
        for (int step = 0; step < tile.num_steps; step++)
            attention.merge(work.partial(tile.first_partial + step, shape));
        if (may_write()) attention.write_output();
    });
}
