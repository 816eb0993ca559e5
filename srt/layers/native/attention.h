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

#include <algorithm>
#include <vector>


struct Item {
    int row, kv_head, first_query, num_queries;
    int first_chunk, end_chunk;
    float* partial;  // where a lone chunk's state goes; null: this item is the whole tile
};

struct Tile {
    int first_item, num_items;
};

// The scratch of one call lives as long as its thread, so that its pages are mapped once.
template <typename Value> Value* grown(std::vector<Value>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return buffer.data();
}

struct Work {
    std::vector<Item> items;
    std::vector<Tile> tiles;
    std::vector<float> partials;
    int max_rows = 0;  // of a tile
    size_t partial_size = 0;
};

// Few tiles leave threads idle; then each chunk is an item of its own, and the chunks of a tile are merged later.
inline void plan_work(const AttentionBatch& batch, const AttentionShape& shape, int num_threads, Work& work) {
    const int group = shape.num_heads / shape.num_kv_heads;
    const int tile_queries = std::max(MAX_ROWS / group, 1);
    int num_tiles = 0;
    work.max_rows = 0;
    for (int row = 0; row < batch.num_rows; row++) {
        const int num_new = batch.row_starts[row + 1] - batch.row_starts[row];
        num_tiles += (num_new + tile_queries - 1) / tile_queries * shape.num_kv_heads;
        work.max_rows = std::max(work.max_rows, std::min(num_new, tile_queries) * group);
    }
    const bool splits = num_threads > 1 && num_tiles < 4 * num_threads;
    work.items.clear();
    work.tiles.clear();
    work.partial_size = 0;
    for (int row = 0; row < batch.num_rows; row++) {
        const int num_new = batch.row_starts[row + 1] - batch.row_starts[row];
        const int num_before = batch.seq_lens[row] - num_new;
        for (int first = 0; first < num_new; first += tile_queries) {
            const int num_queries = std::min(tile_queries, num_new - first);
            const int first_seen = shape.window ? std::max(num_before + first - shape.window + 1, 0) : 0;
            const int first_chunk = first_seen / CHUNK;
            const int end_chunk = (num_before + first + num_queries - 1) / CHUNK + 1;
            for (int head = 0; head < shape.num_kv_heads; head++) {
                const int first_item = int(work.items.size());
                if (splits && end_chunk - first_chunk > 1) {
                    for (int chunk = first_chunk; chunk < end_chunk; chunk++) {
                        // Not yet an address: the buffer may grow while items are listed.
                        float* offset = reinterpret_cast<float*>(++work.partial_size);
                        work.items.push_back({row, head, first, num_queries, chunk, chunk + 1, offset});
                    }
                } else {
                    work.items.push_back({row, head, first, num_queries, first_chunk, end_chunk, nullptr});
                }
                work.tiles.push_back({first_item, int(work.items.size()) - first_item});
            }
        }
    }
    const size_t state_size = size_t(state_floats(work.max_rows, shape.head_dim));
    work.partial_size *= state_size;
    float* start = grown(work.partials, work.partial_size);
    for (Item& item : work.items)
        if (item.partial) item.partial = start + (reinterpret_cast<size_t>(item.partial) - 1) * state_size;
}

template <typename Value>
void write_new(const AttentionBatch& batch, const AttentionShape& shape, const AttentionInputs& inputs) {
    const size_t row_size = size_t(shape.num_kv_heads) * shape.head_dim;
    Value* key_pool = static_cast<Value*>(shape.key_pool);
    Value* value_pool = static_cast<Value*>(shape.value_pool);
#pragma omp for schedule(static)
    for (int token = 0; token < batch.num_tokens; token++) {
        const size_t slot = size_t(batch.out_slots[token]);
        std::memcpy(key_pool + slot * row_size,
                    static_cast<const Value*>(inputs.keys) + token * inputs.key_stride,
                    row_size * sizeof(Value));
        std::memcpy(value_pool + slot * row_size,
                    static_cast<const Value*>(inputs.values) + token * inputs.value_stride,
                    row_size * sizeof(Value));
    }
}

// To be called by every thread of a team; `work` belongs to all of them. Ends with a barrier.
template <typename Value>
void attend_together(const AttentionBatch& batch, const AttentionShape& shape, const AttentionInputs& inputs,
                     Work& work) {
#pragma omp single nowait
    plan_work(batch, shape, batch.num_threads, work);
    write_new<Value>(batch, shape, inputs);  // ends with a barrier: the plan is there, too
    static thread_local std::vector<float> buffer;
    const size_t scratch_size = TileAttention<Value>::scratch_floats(work.max_rows, shape.head_dim);
    TileAttention<Value> attention(batch, shape, inputs, work.max_rows, grown(buffer, scratch_size));
    const int num_items = int(work.items.size()), num_tiles = int(work.tiles.size());
#pragma omp for schedule(dynamic, 1)
    for (int index = 0; index < num_items; index++) {
        const Item& item = work.items[index];
        attention.start(item.row, item.kv_head, item.first_query, item.num_queries);
        for (int chunk = item.first_chunk; chunk < item.end_chunk; chunk++) attention.add_chunk(chunk);
        if (item.partial)
            attention.save(item.partial);
        else
            attention.write_output();
    }
    if (work.partial_size == 0) return;
#pragma omp for schedule(static)
    for (int index = 0; index < num_tiles; index++) {
        const Tile& tile = work.tiles[index];
        const Item& first = work.items[tile.first_item];
        if (!first.partial) continue;
        attention.start(first.row, first.kv_head, first.first_query, first.num_queries);
        for (int part = 0; part < tile.num_items; part++) attention.merge(work.items[tile.first_item + part].partial);
        attention.write_output();
    }
}
