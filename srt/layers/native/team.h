// How threads share work, such that none of them waits for another's turn on a core.
//
// All threads of a team run the same function, phase after phase. A phase is a number of pieces; each is taken by one
// thread, and the phase is over when all pieces are written, whoever did it: not when all threads have come. A thread
// that another program has put off its core may hold a piece. So whoever finds nothing else to do computes that piece,
// too, and the first who is done with it writes it.
//
// Therefore the body of a piece reads only what earlier phases wrote (or memory of its own thread), and writes nothing
// shared before `may_write()` has said true, once. What a thread that comes late reads may be of a later phase: what it
// computes then is thrown away. Nothing here depends on who computed what.

#pragma once

#include <atomic>
#include <cstdint>

inline void breathe() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

struct Team;  // what all threads see

// A thread's claim to one piece.
class MayWrite {
  public:
    MayWrite() = default;  // there is nobody else
    MayWrite(std::atomic<uint64_t>& written, uint64_t stamp) : written_(&written), stamp_(stamp) {}

    // True for the first who asks. Once.
    bool operator()() const {
        if (!written_) return true;
        uint64_t before = written_->load(std::memory_order_relaxed);
        // A late thread finds a later stamp.
        has_won_ = before < stamp_ && written_->compare_exchange_strong(before, stamp_, std::memory_order_relaxed);
        return has_won_;
    }
    bool has_won() const { return has_won_; }

  private:
    std::atomic<uint64_t>* written_ = nullptr;
    uint64_t stamp_ = 0;
    mutable bool has_won_ = false;
};

// One thread's place in the work.
class Member {
  public:
    Member() = default;  // alone
    Member(Team& team, uint64_t start, int index, int num_threads)
        : team_(&team), start_(start), index_(index), num_threads_(num_threads) {}

    // A phase: body(piece, may_write) for each piece. All of it can be read when this returns.
    template <typename Body> void share(int64_t num_pieces, const Body& body) {
        share_pieces(
            num_pieces,
            [](const void* body, int64_t piece, const MayWrite& may_write) {
                (*static_cast<const Body*>(body))(piece, may_write);
            },
            &body);
    }

    // What one thread does for all, and is done once, whatever it may be.
    template <typename Body> void once(const Body& body) {
        share(1, [&](int64_t, const MayWrite& may_write) {
            if (may_write()) body();
        });
    }

  private:
    using Piece = void (*)(const void* body, int64_t piece, const MayWrite& may_write);

    Team* team_ = nullptr;
    uint64_t start_ = 0;  // of the next phase: pieces are numbered through all phases of the process
    int index_ = 0, num_threads_ = 1;

    void share_pieces(int64_t num_pieces, Piece piece, const void* body);
    void share_some(int64_t first, int64_t count, Piece piece, const void* body);
    void help(int64_t first, int64_t count, Piece piece, const void* body);
    int do_piece(int64_t first, int64_t place, Piece piece, const void* body);
};

// body(context, member) on so many threads, the caller's among them. Returns when all pieces are done and no thread is
// in `body` any more. While the other threads work for somebody else, the caller's does all.
void work_together(int num_threads, void (*body)(void* context, Member& member), void* context);

template <typename Body> inline void work_together(int num_threads, const Body& body) {
    work_together(
        num_threads, [](void* context, Member& member) { (*static_cast<const Body*>(context))(member); },
        const_cast<Body*>(&body));
}
