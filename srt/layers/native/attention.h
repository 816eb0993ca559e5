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

#include <vector>


struct Item {
    int row, first_head, num_heads, first_query, num_queries;
    int first_chunk, end_chunk;
    int64_t partial;  // where a lone chunk's state goes, counted in states; -1: this item is the whole tile
};

struct Tile {
    int first_item, num_items;
};

// The scratch of one call lives as long as its thread, so that its pages are mapped once.
template <typename Value> Value* grown(std::vector<Value>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return buffer.data();
}

// Who computes what, of a batch and a window.
struct Work {
    std::vector<Item> items;
    std::vector<Tile> tiles;
    std::vector<float> partials;
    int max_rows = 0;  // of a tile, with all its heads
    int64_t num_partials = 0;
    int window = -1;

    float* partial(const Item& item, const AttentionShape& shape) {
        return partials.data() + item.partial * state_floats(max_rows, shape.head_dim);
    }
};

// A tile of few rows takes all key-value heads, one of many a head. Few tiles leave threads idle; then each has one head,
// and each of its chunks is an item of its own, and the chunks of a tile are merged later.
inline void plan_work(const AttentionBatch& batch, const AttentionShape& shape, Work& work) {
    const int group = shape.num_heads / shape.num_kv_heads;
    const int tile_queries = std::max(MAX_ROWS / group, 1);
    int num_tiles = 0, most_new = 0;
    for (int row = 0; row < batch.num_rows; row++) {
        const int num_new = batch.row_starts[row + 1] - batch.row_starts[row];
        num_tiles += (num_new + tile_queries - 1) / tile_queries;
        most_new = std::max(most_new, num_new);
    }
    const bool has_many = batch.num_threads == 1 || num_tiles >= 4 * batch.num_threads;
    const bool splits = batch.num_threads > 1 && num_tiles * shape.num_kv_heads < 4 * batch.num_threads;
    work.items.clear();
    work.tiles.clear();
    work.num_partials = 0;
    work.max_rows = std::max(std::min(most_new, tile_queries) * group, has_many ? shape.num_heads : 0);
    for (int row = 0; row < batch.num_rows; row++) {
        const int num_new = batch.row_starts[row + 1] - batch.row_starts[row];
        const int num_before = batch.seq_lens[row] - num_new;
        const int num_heads = has_many && num_new == 1 ? shape.num_kv_heads : 1;
        for (int first = 0; first < num_new; first += tile_queries) {
            const int num_queries = std::min(tile_queries, num_new - first);
            const int first_seen = shape.window ? std::max(num_before + first - shape.window + 1, 0) : 0;
            const int first_chunk = first_seen / CHUNK;
            const int end_chunk = (num_before + first + num_queries - 1) / CHUNK + 1;
            for (int head = 0; head < shape.num_kv_heads; head += num_heads) {
                const int first_item = int(work.items.size());
                if (splits && end_chunk - first_chunk > 1) {
                    for (int chunk = first_chunk; chunk < end_chunk; chunk++)
                        work.items.push_back(
                            {row, head, num_heads, first, num_queries, chunk, chunk + 1, work.num_partials++});
                } else {
                    work.items.push_back({row, head, num_heads, first, num_queries, first_chunk, end_chunk, -1});
                }
                work.tiles.push_back({first_item, int(work.items.size()) - first_item});
            }
        }
    }
    grown(work.partials, work.num_partials * state_floats(work.max_rows, shape.head_dim));
}

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
    member.share(num_items, [&](int64_t index, const MayWrite& may_write) {
        const Item& item = work.items[index];
        attention.start(item.row, item.first_head, item.num_heads, item.first_query, item.num_queries);
        for (int chunk = item.first_chunk; chunk < item.end_chunk; chunk++) {
            if (chunk + 1 < item.end_chunk) {
                attention.expect(item.row, item.first_head, chunk + 1);
            } else {
                const Item& next = work.items[std::min<int64_t>(index + 1, num_items - 1)];
                attention.expect(next.row, next.first_head, next.first_chunk);
            }
            attention.add_chunk(chunk);
        }
        if (!may_write()) return;
        if (item.partial >= 0)
            attention.save(work.partial(item, shape));
        else
            attention.write_output();
    });
    if (work.num_partials == 0) return;
    member.share(num_tiles, [&](int64_t index, const MayWrite& may_write) {
        const Tile& tile = work.tiles[index];
        const Item& first = work.items[tile.first_item];
        if (first.partial < 0) {
            may_write();
            return;
        }
        attention.start(first.row, first.first_head, first.num_heads, first.first_query, first.num_queries);
        for (int part = 0; part < tile.num_items; part++)
            attention.merge(work.partial(work.items[tile.first_item + part], shape));
        if (may_write()) attention.write_output();
    });
}
