// The threads of team.h: one team a process. A thread that is late for a call is not waited for; it finds the door shut.

#include "team.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

// Pieces are numbered through all phases of the process.
struct Team {
    static constexpr int64_t MOST = 4096;  // pieces of one phase

    alignas(128) std::atomic<uint64_t> next{0};  // to be taken
    alignas(128) std::atomic<uint64_t> num_done{0};
    alignas(128) std::atomic<uint64_t> written[MOST] = {};  // by place in its phase: the last piece there, plus 1

    bool has_done(uint64_t end) const { return num_done.load(std::memory_order_acquire) >= end; }
};

namespace {

constexpr int64_t LEAST_PATIENCE_NS = 2000, LONG_PATIENCE_NS = 100'000;  // with other threads' pieces
constexpr timespec NAP{0, 50'000};

int64_t clock_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Looks until `is_so`, at most so long.
template <typename Question> bool look_for(int64_t nanoseconds, const Question& is_so) {
    if (is_so()) return true;
    const int64_t end = clock_ns() + nanoseconds;
    do {
        for (int look = 0; look < 16; look++) {
            breathe();
            if (is_so()) return true;
        }
    } while (clock_ns() < end);
    return is_so();
}

constexpr uint32_t SHUT = 1u << 31;
constexpr int64_t LOOKS_NS = 50'000;  // so long a thread looks for work before it sleeps

// A number that others wait for a change of.
struct Signal {
    std::atomic<uint32_t> value{0}, num_asleep{0};

    void wake() {
        if (num_asleep.load(std::memory_order_seq_cst) != 0)
            syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }
    void sleep_while(uint32_t seen) {
        num_asleep.fetch_add(1, std::memory_order_seq_cst);
        if (value.load(std::memory_order_seq_cst) == seen)
            syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        num_asleep.fetch_sub(1, std::memory_order_seq_cst);
    }
};

struct Pool {
    std::mutex is_used;
    Team team;
    // What is to be done: written while the door is shut and nobody is inside.
    void (*body)(void*, Member&) = nullptr;
    void* context = nullptr;
    int num_threads = 0;
    uint64_t start = 0;

    Signal calls;
    alignas(128) Signal door;  // SHUT, and how many are inside
    int num_workers = 0;

    Pool() { door.value = SHUT; }
};

Pool* pool = nullptr;
std::once_flag made;

// Returns whether the door was open.
bool enter(Pool& pool) { return !(pool.door.value.fetch_add(1, std::memory_order_seq_cst) & SHUT); }

void leave(Pool& pool) {
    if (pool.door.value.fetch_sub(1, std::memory_order_seq_cst) == SHUT + 1) pool.door.wake();
}

void work(Pool* pool, int index) {
    uint32_t seen = 0;
    for (;;) {
        const auto is_called = [&] { return pool->calls.value.load(std::memory_order_acquire) != seen; };
        if (!look_for(LOOKS_NS, is_called)) {
            pool->calls.sleep_while(seen);
            continue;
        }
        seen = pool->calls.value.load(std::memory_order_acquire);
        if (enter(*pool) && index < pool->num_threads) {
            Member member(pool->team, pool->start, index, pool->num_threads);
            pool->body(pool->context, member);
        }
        leave(*pool);
    }
}

void add_worker(Pool& pool) {
    const int index = ++pool.num_workers;
    std::thread worker(work, &pool, index);
    pthread_setname_np(worker.native_handle(), "lockstep-compute");
    worker.detach();
}

}  // namespace

void work_together(int num_threads, void (*body)(void*, Member&), void* context) {
    std::call_once(made, [] {
        pool = new Pool;  // never freed: its threads end with the process
        pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
    });
    Pool& here = *pool;
    if (num_threads <= 1 || !here.is_used.try_lock()) {
        Member alone;
        body(context, alone);
        return;
    }
    while (here.num_workers < num_threads - 1) add_worker(here);
    here.body = body;
    here.context = context;
    here.num_threads = num_threads;
    here.start = here.team.num_done.load(std::memory_order_relaxed);
    here.door.value.fetch_and(~SHUT, std::memory_order_seq_cst);
    here.calls.value.fetch_add(1, std::memory_order_seq_cst);
    here.calls.wake();
    Member first(here.team, here.start, 0, num_threads);
    body(context, first);
    uint32_t inside = here.door.value.fetch_or(SHUT, std::memory_order_seq_cst) | SHUT;
    while (!look_for(LOOKS_NS, [&] {
        inside = here.door.value.load(std::memory_order_acquire);
        return inside == SHUT;
    }))
        here.door.sleep_while(inside);
    here.is_used.unlock();
}

void Member::share_pieces(int64_t num_pieces, Piece piece, const void* body) {
    if (!team_) {
        for (int64_t index = 0; index < num_pieces; index++) piece(body, index, MayWrite());
        return;
    }
    for (int64_t first = 0; first < num_pieces; first += Team::MOST)
        share_some(first, std::min(num_pieces - first, Team::MOST), piece, body);
}

// 1 if this thread wrote it.
int Member::do_piece(int64_t first, int64_t place, Piece piece, const void* body) {
    const MayWrite may_write(team_->written[place], start_ + place + 1);
    piece(body, first + place, may_write);
    return may_write.has_won();
}

void Member::share_some(int64_t first, int64_t count, Piece piece, const void* body) {
    const uint64_t end = start_ + count;
    const auto is_done = [&] { return team_->has_done(end); };
    int64_t patience = LEAST_PATIENCE_NS;
    uint64_t ticket = team_->next.load(std::memory_order_relaxed);
    while (ticket < end) {
        // Many at first, one by one in the end.
        const uint64_t last = ticket + std::max<uint64_t>((end - ticket) / (2 * num_threads_), 1);
        if (!team_->next.compare_exchange_weak(ticket, last, std::memory_order_relaxed)) continue;
        const int64_t begin = clock_ns();
        int num_won = 0;
        for (; ticket < last; ticket++) num_won += do_piece(first, int64_t(ticket - start_), piece, body);
        team_->num_done.fetch_add(num_won, std::memory_order_release);
        patience = std::max(patience, clock_ns() - begin);
        ticket = team_->next.load(std::memory_order_relaxed);
    }
    // The others need about as long for what they have in hand; if not, one of them has lost its core.
    if (!look_for(patience, is_done)) {
        help(first, count, piece, body);
        // Somebody lost it while it wrote, or does what is done once.
        while (!look_for(LONG_PATIENCE_NS, is_done)) nanosleep(&NAP, nullptr);
    }
    start_ = end;
}

void Member::help(int64_t first, int64_t count, Piece piece, const void* body) {
    const int64_t offset = count * index_ / num_threads_;
    for (int64_t step = 0; step < count && !team_->has_done(start_ + count); step++) {
        const int64_t place = (step + offset) % count;
        if (team_->written[place].load(std::memory_order_relaxed) > start_ + place) continue;
        team_->num_done.fetch_add(do_piece(first, place, piece, body), std::memory_order_release);
    }
}
