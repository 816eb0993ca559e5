// Who computes what of a batch's attention.
//
// Rows of one new token whose slot tables begin alike (a prefix that the cache holds once) become one tile: what they
// share is read once for all of them. What a query sees is added chunk by chunk in the same order as if it were alone.

#pragma once

#include "attention_weights.h"
#include "scratch.h"

#include <algorithm>

constexpr int MOST_SHARING = 16;  // rows of one tile

struct Query {
    int row, token, position;
};

// Queries of a tile that find the same slots in a chunk, or the tile's only row.
struct Step {
    int chunk, first_query, num_queries;
};

struct Tile {
    int first_query, num_queries, first_head, num_heads, first_step, num_steps;
    int64_t first_partial;  // where a step's state goes, counted in states; -1: one item is the whole tile
};

struct Item {
    int tile, first_step, end_step;
    int64_t partial;  // -1: none
};

// A row of one new token. Of its chunks, the first num_shared have the same slots as those of the row before.
struct DecodeRow {
    int row, num_shared;
};

// Of a batch and a window. Queries, steps and tiles refer to places in the vectors before them.
struct Work {
    std::vector<Query> queries;
    std::vector<Step> steps;
    std::vector<Tile> tiles;
    std::vector<Item> items;
    std::vector<float> partials;
    std::vector<DecodeRow> decode_rows;
    int max_rows = 0;  // of a tile, with all its heads
    int64_t num_partials = 0;
    int window = -1;

    float* partial(int64_t index, const AttentionShape& shape) {
        return partials.data() + index * state_floats(max_rows, shape.head_dim);
    }
    int slots_row(const Tile& tile, const Step& step) const {
        return queries[tile.first_query + step.first_query].row;
    }
};

class Planner {
  public:
    Planner(const AttentionBatch& batch, const AttentionShape& shape, Work& work)
        : batch_(batch), shape_(shape), work_(work), group_(shape.num_heads / shape.num_kv_heads),
          tile_queries_(std::max(MAX_ROWS / group_, 1)) {}

    // A tile of decoding rows takes all key-value heads, one of a prompt a head. Few tiles leave threads idle; then each
    // has one head, and each of its steps is an item of its own, and the steps of a tile are merged later.
    void plan() {
        work_.queries.clear();
        work_.steps.clear();
        work_.tiles.clear();
        work_.items.clear();
        work_.max_rows = 0;
        work_.num_partials = 0;
        find_decode_rows();
        for (int first = 0; first < int(work_.decode_rows.size()); first += add_sharing_rows(first)) {}
        const int num_sharing_tiles = int(work_.tiles.size());
        for (int row = 0; row < batch_.num_rows; row++)
            if (num_new(row) > 1) add_prompt(row);
        const int num_tiles = int(work_.tiles.size());
        const bool has_many = batch_.num_threads == 1 || num_tiles >= 4 * batch_.num_threads;
        splits_ = batch_.num_threads > 1 && num_tiles * shape_.num_kv_heads < 4 * batch_.num_threads;
        for (int tile = 0; tile < num_tiles; tile++)
            add_heads(tile, has_many && tile < num_sharing_tiles ? shape_.num_kv_heads : 1);
        grown(work_.partials, work_.num_partials * state_floats(work_.max_rows, shape_.head_dim));
    }

  private:
    int num_new(int row) const { return batch_.row_starts[row + 1] - batch_.row_starts[row]; }
    const int32_t* chunk_slots(int row, int chunk) const {
        return batch_.slot_table + row * batch_.table_stride + int64_t(chunk) * CHUNK;
    }
    int num_whole_chunks(int row) const { return batch_.seq_lens[row] / CHUNK; }
    int first_chunk(int position) const {
        return shape_.window ? std::max(position - shape_.window + 1, 0) / CHUNK : 0;
    }

    // Those that share chunks next to each other.
    void find_decode_rows() {
        std::vector<DecodeRow>& rows = work_.decode_rows;
        rows.clear();
        for (int row = 0; row < batch_.num_rows; row++)
            if (num_new(row) == 1) rows.push_back({row, 0});
        // Where the last slots of chunks are the same, those before nearly always are.
        std::sort(rows.begin(), rows.end(), [&](const DecodeRow& left, const DecodeRow& right) {
            const int num_left = num_whole_chunks(left.row), num_right = num_whole_chunks(right.row);
            for (int chunk = 0; chunk < std::min(num_left, num_right); chunk++) {
                const int32_t a = chunk_slots(left.row, chunk)[CHUNK - 1], b = chunk_slots(right.row, chunk)[CHUNK - 1];
                if (a != b) return a < b;
            }
            return num_left != num_right ? num_left < num_right : left.row < right.row;
        });
        for (size_t index = 1; index < rows.size(); index++)
            rows[index].num_shared = count_shared(rows[index - 1].row, rows[index].row);
    }

    int count_shared(int left, int right) const {
        const int most = std::min(num_whole_chunks(left), num_whole_chunks(right));
        int count = 0;
        while (count < most &&
               !std::memcmp(chunk_slots(left, count), chunk_slots(right, count), CHUNK * sizeof(int32_t)))
            count++;
        return count;
    }

    // A tile of rows from `first` on. Returns how many.
    int add_sharing_rows(int first) {
        const std::vector<DecodeRow>& rows = work_.decode_rows;
        const int num_rows = int(rows.size());
        int most = std::min(MOST_SHARING, tile_queries_);
        if (batch_.num_threads > 1) most = std::min(most, std::max(num_rows / (4 * batch_.num_threads), 2));
        int end = first + 1;
        while (end < num_rows && end - first < most && rows[end].num_shared > 0) end++;
        // More share than there is room for: parted where they share least.
        if (end < num_rows)
            for (int cut = end - 1; cut > first + most / 2; cut--)
                if (rows[cut].num_shared < rows[end].num_shared) end = cut;
        const int first_query = int(work_.queries.size());
        int chunk = INT_MAX, end_chunk = 0;
        for (int index = first; index < end; index++) {
            const int row = rows[index].row, position = batch_.seq_lens[row] - 1;
            work_.queries.push_back({row, batch_.row_starts[row], position});
            chunk = std::min(chunk, first_chunk(position));
            end_chunk = std::max(end_chunk, position / CHUNK + 1);
        }
        const int first_step = int(work_.steps.size());
        for (; chunk < end_chunk; chunk++)
            add_steps(chunk, first, end);
        add_tile(first_query, first_step);
        return end - first;
    }

    // Of one chunk: rows that share it are taken together.
    void add_steps(int chunk, int first, int end) {
        const std::vector<DecodeRow>& rows = work_.decode_rows;
        for (int start = first, stop; start < end; start = stop) {
            bool is_seen = false;
            for (stop = start; stop < end && (stop == start || rows[stop].num_shared > chunk); stop++) {
                const int position = batch_.seq_lens[rows[stop].row] - 1;
                is_seen |= first_chunk(position) <= chunk && chunk <= position / CHUNK;
            }
            if (is_seen) work_.steps.push_back({chunk, start - first, stop - start});
        }
    }

    void add_prompt(int row) {
        const int num_before = batch_.seq_lens[row] - num_new(row);
        for (int first = 0; first < num_new(row); first += tile_queries_) {
            const int num_queries = std::min(tile_queries_, num_new(row) - first);
            const int first_query = int(work_.queries.size()), first_step = int(work_.steps.size());
            for (int index = first; index < first + num_queries; index++)
                work_.queries.push_back({row, batch_.row_starts[row] + index, num_before + index});
            const int last_chunk = (num_before + first + num_queries - 1) / CHUNK;
            for (int chunk = first_chunk(num_before + first); chunk <= last_chunk; chunk++)
                work_.steps.push_back({chunk, 0, num_queries});
            add_tile(first_query, first_step);
        }
    }

    // Of all queries and steps since.
    void add_tile(int first_query, int first_step) {
        work_.tiles.push_back({first_query, int(work_.queries.size()) - first_query, 0, shape_.num_kv_heads,
                               first_step, int(work_.steps.size()) - first_step, -1});
    }

    // Its items, and a tile for each num_heads heads.
    void add_heads(int tile_index, int num_heads) {
        for (int head = 0; head < shape_.num_kv_heads; head += num_heads) {
            int index = tile_index;
            if (head > 0) {
                index = int(work_.tiles.size());
                work_.tiles.push_back(work_.tiles[tile_index]);
            }
            Tile& tile = work_.tiles[index];
            tile.first_head = head;
            tile.num_heads = num_heads;
            work_.max_rows = std::max(work_.max_rows, tile.num_queries * group_ * num_heads);
            if (splits_ && tile.num_steps > 1) {
                tile.first_partial = work_.num_partials;
                for (int step = tile.first_step; step < tile.first_step + tile.num_steps; step++)
                    work_.items.push_back({index, step, step + 1, work_.num_partials++});
            } else {
                tile.first_partial = -1;
                work_.items.push_back({index, tile.first_step, tile.first_step + tile.num_steps, -1});
            }
        }
    }

    const AttentionBatch& batch_;
    const AttentionShape& shape_;
    Work& work_;
    const int group_, tile_queries_;
    bool splits_ = false;
};

inline void plan_work(const AttentionBatch& batch, const AttentionShape& shape, Work& work) {
    Planner(batch, shape, work).plan();
}
