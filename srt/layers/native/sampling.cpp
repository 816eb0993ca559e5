// The next token of each row of logits, as srt/layers/native/sampling.py calls it.
//
// What the settings mean, and why a race, stands in srt/sampling/exponential_race.py. All that is seen of a row is the
// row: its token depends neither on other rows nor on the thread.

#include "cuts.h"
#include "team.h"

#include <memory>

// One row's settings, as srt/layers/native/sampling.py packs them.
struct Settings {
    uint64_t seed, position;
    const uint32_t* allowed;  // a bit for each token; null: all are
    double top_p, min_p;      // 1 and 0: off
    float temperature;        // 0: the likeliest
    int32_t top_k;            // 0: off
};

namespace {

// Chooses for one row after another; a thread's own.
template <typename Logit> class Chooser {
  public:
    // 0 where nothing is possible, or -1 if only some are allowed.
    int choose(const Logit* logits, int size, const Settings& wanted) {
        row_.read(logits, size, wanted.allowed);
        if (row_.greatest() == IMPOSSIBLE) return wanted.allowed ? -1 : 0;
        return wanted.temperature == 0 ? row_.first_of_greatest() : draw(size, wanted);
    }

  private:
    LogitRow<Logit> row_;
    Race<LogitRow<Logit>> race_{row_};

    // The winner of the race among those that stay.
    int draw(int size, const Settings& wanted) {
        row_.make_finite();
        int bits = 0;
        while (bits < 31 && (size - 1) >> bits) bits++;
        const Mass mass{row_.greatest(), 1 / wanted.temperature, float(std::ldexp(1.0, 52 - bits))};
        Cuts<LogitRow<Logit>> cuts{row_, mass, {wanted.top_k, wanted.top_p, wanted.min_p}};
        race_.prepare(wanted.temperature, noise_key(wanted.seed, wanted.position));
        Head head = cuts.near_min_p();
        for (bool is_first = true;; is_first = false) {
            const int winner = race_.find_winner(head);
            if (winner < 0) return row_.first_of_greatest();
            head = {row_.one_at(winner), winner};  // all before it
            if (cuts.keep_next_of(head)) return winner;
            if (!is_first) continue;
            const Head near_top_k = cuts.near_top_k();
            if (near_top_k.is_shorter_than(head)) head = near_top_k;
        }
    }
};

// Whichever thread this is, it has its own.
template <typename Logit> int choose(const Logit* logits, int size, const Settings& wanted) {
    static thread_local std::unique_ptr<Chooser<Logit>> owned;
    if (!owned) owned.reset(new Chooser<Logit>);
    return owned->choose(logits, size, wanted);
}

}  // namespace

// A token each; where nothing is possible 0, or -1 if only some are allowed. `stride` counts logits, which are float or,
// if `is_bfloat16`, what the model rounds them to.
extern "C" void lockstep_sample(const void* logits, int32_t is_bfloat16, int64_t stride, int32_t num_rows,
                                int32_t vocab_size, const Settings* settings, int64_t* token_ids, int32_t num_threads) {
    work_together(num_rows > 1 ? num_threads : 1, [&](Member& member) {
        member.share(num_rows, [&](int64_t index, const MayWrite& may_write) {
            const int64_t start = index * stride;
            const int id = is_bfloat16
                               ? choose(static_cast<const BFloat16*>(logits) + start, vocab_size, settings[index])
                               : choose(static_cast<const float*>(logits) + start, vocab_size, settings[index]);
            if (may_write()) token_ids[index] = id;
        });
    });
}
