// Ranks on one machine meet in memory that all of them see: to add up tensors, to lay them side by side, to hear rank 0.
//
// Whoever waits looks for a moment, then sleeps in the kernel until it is woken. Sums are taken in the ranks' order, in
// float32, so that every rank has the same bits. A rank that is gone, or too slow, is noticed by all that wait for it.

#pragma once

#include "simd.h"
#include "team.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

constexpr int MAX_RANKS = 64;
constexpr int64_t SLOT_BYTES = 256 << 10;  // of one tensor that are exchanged at a time
constexpr int64_t PIECE = 4096;            // values that a thread takes at a time
constexpr int MANY_RANKS = 3;
constexpr int64_t WORD_BYTES = 16 << 10;   // of one message from rank 0
constexpr int NUM_WORDS = 4;               // that rank 0 may be ahead of the slowest listener
constexpr int64_t LEAST_PATIENCE_NS = 1000, MOST_PATIENCE_NS = 100'000;  // of those who look before they sleep
constexpr int64_t NAP_NS = 100'000'000;  // so often a sleeper looks whether the others still live

enum Loss : int32_t { NONE = 0, ENDED = 1, SILENT = 2 };

// One writer raises it, others wait for it. By itself in its cache lines.
struct alignas(128) Counter {
    std::atomic<uint32_t> value, num_asleep;
};

// What the memory begins with. All zeros at first.
struct Board {
    Counter arrived[MAX_RANKS];  // meetings that each rank has come to
    Counter told, heard[MAX_RANKS];
};

// One rank's seat, as srt/distributed/shared_memory.py declares it. Adding up and telling may be in two threads at once.
struct Ranks {
    char* memory;
    const int32_t* doors;  // descriptors that become readable when somebody leaves
    int32_t num_doors;
    int32_t rank, size;
    int32_t loss;  // once anything is lost, nothing waits any more
    int64_t limit_ns;
    uint32_t num_meetings, num_exchanges, num_told;
    int64_t patience_ns[2];  // in meetings, for words
};

inline Board& board(const Ranks& ranks) { return *reinterpret_cast<Board*>(ranks.memory); }

// Each rank has two: who begins to write the one has seen all others done with it, for they have come to the other.
template <typename Value> inline Value* slot_of(const Ranks& ranks, int rank, uint32_t exchange) {
    return reinterpret_cast<Value*>(ranks.memory + sizeof(Board) + (rank * 2 + exchange % 2) * SLOT_BYTES);
}

inline int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

inline bool has_reached(const Counter& counter, uint32_t goal) {
    return int32_t(counter.value.load(std::memory_order_acquire) - goal) >= 0;
}

inline bool has_lost(Ranks& ranks) { return __atomic_load_n(&ranks.loss, __ATOMIC_RELAXED) != NONE; }

// By its only writer.
inline void raise(Counter& counter, uint32_t value) {
    counter.value.store(value, std::memory_order_seq_cst);
    if (counter.num_asleep.load(std::memory_order_seq_cst) != 0)
        syscall(SYS_futex, &counter.value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

inline void sleep_until_raised(Counter& counter, uint32_t goal) {
    const timespec nap{0, NAP_NS};
    counter.num_asleep.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = counter.value.load(std::memory_order_seq_cst);
    if (int32_t(seen - goal) < 0) syscall(SYS_futex, &counter.value, FUTEX_WAIT, seen, &nap, nullptr, 0);
    counter.num_asleep.fetch_sub(1, std::memory_order_seq_cst);
}

inline bool somebody_left(const Ranks& ranks) {
    pollfd doors[MAX_RANKS];
    for (int door = 0; door < ranks.num_doors; door++) doors[door] = {ranks.doors[door], POLLIN, 0};
    return poll(doors, nfds_t(ranks.num_doors), 0) > 0;
}

// False if that will not happen. Patience grows where a little more of it would have saved a sleep, and shrinks where
// the others were long in coming: looking would only keep them from a core.
inline bool wait_for(Ranks& ranks, Counter& counter, uint32_t goal, int64_t& patience_ns) {
    if (has_reached(counter, goal)) return true;
    if (has_lost(ranks)) return false;
    const int64_t start = now_ns();
    bool is_here = false;
    do {
        for (int look = 0; look < 16 && !is_here; look++) {
            breathe();
            is_here = has_reached(counter, goal);
        }
    } while (!is_here && now_ns() - start < patience_ns);
    // A nap that took longer than it may is not the others' silence: this process had no core, and perhaps they hadn't.
    int64_t silent_ns = 0, lain_down = now_ns();
    while (!is_here) {
        sleep_until_raised(counter, goal);
        is_here = has_reached(counter, goal);
        if (is_here) break;
        const int64_t awake = now_ns();
        silent_ns += std::min(awake - lain_down, 2 * NAP_NS);
        lain_down = awake;
        Loss loss = somebody_left(ranks) ? ENDED : silent_ns > ranks.limit_ns ? SILENT : NONE;
        if (loss == NONE || has_reached(counter, goal)) continue;  // whoever left may have come here before
        __atomic_store_n(&ranks.loss, loss, __ATOMIC_RELAXED);
        return false;
    }
    const bool was_soon = now_ns() - start < MOST_PATIENCE_NS;
    patience_ns = was_soon ? std::min(patience_ns * 2, MOST_PATIENCE_NS) : std::max(patience_ns / 2, LEAST_PATIENCE_NS);
    return true;
}

// All ranks have come here when it returns, and see what the others wrote before. False if one will not come.
inline bool meet(Ranks& ranks) {
    const uint32_t meeting = ++ranks.num_meetings;
    raise(board(ranks).arrived[ranks.rank], meeting);
    for (int rank = 0; rank < ranks.size; rank++) {
        if (rank == ranks.rank) continue;
        if (!wait_for(ranks, board(ranks).arrived[rank], meeting, ranks.patience_ns[0])) return false;
    }
    return true;
}

// Every rank's values `first` up to `end` in their slots; `take` gets the sums, a vector of them or one, and their place.
template <typename Value, typename Take>
inline void sum_slots(const Ranks& ranks, uint32_t exchange, int64_t first, int64_t end, const Take& take) {
    const Value* slots[MAX_RANKS];
    for (int rank = 0; rank < ranks.size; rank++) slots[rank] = slot_of<Value>(ranks, rank, exchange);
    int64_t index = first;
    for (; index + LANES <= end; index += LANES) {
        Floats total = load(slots[0] + index);
        for (int rank = 1; rank < ranks.size; rank++) total += load(slots[rank] + index);
        take(total, index);
    }
    for (; index < end; index++) {
        float total = to_float(slots[0][index]);
        for (int rank = 1; rank < ranks.size; rank++) total += to_float(slots[rank][index]);
        take(total, index);
    }
}

// The same of one slot, where there are sums already.
template <typename Value, typename Take>
inline void take_slot(const Value* slot, int64_t first, int64_t end, const Take& take) {
    int64_t index = first;
    for (; index + LANES <= end; index += LANES) take(load(slot + index), index);
    for (; index < end; index++) take(to_float(slot[index]), index);
}

inline void round_to(float* to, float value) { *to = value; }
inline void round_to(BFloat16* to, float value) { *to = to_bfloat16(value); }
inline void round_to(Float16* to, float value) {
    Float16 values[LANES];
    store(values, all(value));
    *to = values[0];
}
template <typename Value> inline void round_to(Value* to, Floats values) { store(to, values); }

// To be called by every thread of a team; `exchange` is each thread's own count, which begins with ranks.num_exchanges.
// `take` gets the sums of all ranks' summands, which may be rounded already. Many ranks share the adding up of many
// values: each does a part for all.
template <typename Value, typename Take>
inline void add_up_together(Member& member, Ranks& ranks, uint32_t& exchange, const Value* summands, int64_t count,
                            const Take& take) {
    if (count <= PIECE) {
        member.once([&] {
            std::memcpy(slot_of<Value>(ranks, ranks.rank, exchange), summands, count * sizeof(Value));
            ranks.num_exchanges = exchange + 1;
            if (meet(ranks)) sum_slots<Value>(ranks, exchange, 0, count, take);
        });
        exchange++;
        return;
    }
    const bool shares = ranks.size >= MANY_RANKS;
    constexpr int64_t most = SLOT_BYTES / int64_t(sizeof(Value)) / PIECE * PIECE;
    for (int64_t start = 0; start < count; start += most, exchange++) {
        const int64_t size = std::min(most, count - start), num_pieces = (size + PIECE - 1) / PIECE;
        Value* own = slot_of<Value>(ranks, ranks.rank, exchange);
        const auto end = [&](int64_t piece) { return std::min((piece + 1) * PIECE, size); };
        const auto take_here = [&](auto values, int64_t index) { take(values, start + index); };
        member.share(num_pieces, [&](int64_t piece, const MayWrite& may_write) {
            if (may_write())
                std::memcpy(own + piece * PIECE, summands + start + piece * PIECE,
                            (end(piece) - piece * PIECE) * sizeof(Value));
        });
        member.once([&] {
            meet(ranks);
            ranks.num_exchanges = exchange + 1;
        });
        if (shares) {
            const int64_t num_here = (num_pieces - ranks.rank + ranks.size - 1) / ranks.size;
            member.share(std::max<int64_t>(num_here, 0), [&](int64_t index, const MayWrite& may_write) {
                const int64_t piece = ranks.rank + index * ranks.size;
                if (may_write())
                    sum_slots<Value>(ranks, exchange, piece * PIECE, end(piece),
                                     [&](auto sums, int64_t index) { round_to(own + index, sums); });
            });
            member.once([&] { meet(ranks); });
        }
        member.share(num_pieces, [&](int64_t piece, const MayWrite& may_write) {
            if (!may_write()) return;
            if (shares)
                take_slot(slot_of<Value>(ranks, int(piece % ranks.size), exchange), piece * PIECE, end(piece), take_here);
            else
                sum_slots<Value>(ranks, exchange, piece * PIECE, end(piece), take_here);
        });
    }
}
