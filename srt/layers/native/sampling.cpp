// The next token of each row of logits, as srt/layers/native/sampling.py calls it.
//
// What the settings mean, and why a race, stands in srt/sampling/exponential_race.py. All that is seen of a row is the
// row: its token depends neither on other rows nor on the thread.

#include "race.h"
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
class Chooser {
  public:
    // 0 where nothing is possible, or -1 if only some are allowed.
    template <typename Logit> int choose(const Logit* logits, int size, const Settings& wanted) {
        const int id =
            wanted.temperature == 0 ? likeliest(logits, size, wanted.allowed) : draw(logits, size, wanted);
        return id < 0 && !wanted.allowed ? 0 : id;
    }

  private:
    LogitRow row_;
    Cuts cuts_{row_};

    // The lowest id of the greatest logit; -1 where nothing is possible.
    template <typename Logit> int likeliest(const Logit* logits, int size, const uint32_t* allowed) {
        row_.look_through(logits, size, allowed);
        const float greatest = row_.greatest();
        if (greatest == IMPOSSIBLE) return -1;
        for (int id = row_.first_block_of_greatest() * BLOCK_SIZE;; id++)
            if (to_float(logits[id]) == greatest && (!allowed || allowed[id / 32] >> (id % 32) & 1)) return id;
    }

    // The winner of the race among those that stay; -1 where nothing is possible.
    template <typename Logit> int draw(const Logit* logits, int size, const Settings& wanted) {
        row_.read(logits, size, wanted.allowed);
        if (row_.greatest() == IMPOSSIBLE) return -1;
        if (row_.greatest() == INFINITY) row_.make_finite();
        int bits = 0;
        while (bits < 31 && (size - 1) >> bits) bits++;
        const Mass mass{row_.greatest(), 1 / wanted.temperature, float(std::ldexp(1.0, 52 - bits))};
        Head head;
        const auto cut = [&](Head other) {
            if (other.is_shorter_than(head)) head = other;
        };
        if (wanted.top_k > 0 && wanted.top_k < size) cut(cuts_.find_top_k_head(wanted.top_k));
        if (wanted.top_p < 1.0) cut(cuts_.find_top_p_head(mass, wanted.top_p));
        if (wanted.min_p > 0.0) cut(cuts_.find_min_p_head(mass, wanted.min_p));
        return race(row_, head, wanted.temperature, noise_key(wanted.seed, wanted.position));
    }
};

}  // namespace

// A token each; where nothing is possible 0, or -1 if only some are allowed. `stride` counts logits, which are float or,
// if `is_bfloat16`, what the model rounds them to.
extern "C" void lockstep_sample(const void* logits, int32_t is_bfloat16, int64_t stride, int32_t num_rows,
                                int32_t vocab_size, const Settings* settings, int64_t* token_ids, int32_t num_threads) {
    work_together(num_rows > 1 ? num_threads : 1, [&](Member& member) {
        static thread_local std::unique_ptr<Chooser> owned;
        if (!owned) owned.reset(new Chooser);
        member.share(num_rows, [&](int64_t index, const MayWrite& may_write) {
            const int64_t start = index * stride;
            const int id =
                is_bfloat16
                    ? owned->choose(static_cast<const BFloat16*>(logits) + start, vocab_size, settings[index])
                    : owned->choose(static_cast<const float*>(logits) + start, vocab_size, settings[index]);
            if (may_write()) token_ids[index] = id;
        });
    });
}
