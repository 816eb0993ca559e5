// The next token of each row of logits, as srt/layers/native/sampling.py calls it.
//
// What the settings mean, and why a race, stands in srt/sampling/exponential_race.py; the noise in seeded_noise.py. All
// that is seen of a row is the row: its token depends neither on other rows nor on the thread.
//
// No cut sorts: each is a search for the value down to which tokens stay, over those that may be near it. Rows are cut
// into blocks whose greatest logits are known, so a pass that asks for large logits skips most of the row.

#include "simd.h"
#include "team.h"

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

namespace {

constexpr int BLOCK_SIZE = 64;  // logits
constexpr int FEW = 32;         // so many are sorted rather than split further
constexpr float IMPOSSIBLE = -INFINITY;
constexpr uint32_t TOKEN_STEP = 0x9E3779B1;

typedef double Doubles __attribute__((vector_size(LANES * 8)));

}  // namespace

// One row's settings, as srt/layers/native/sampling.py packs them.
struct Settings {
    uint64_t seed, position;
    const uint32_t* allowed;  // a bit for each token; null: all are
    double top_p, min_p;      // 1 and 0: off
    float temperature;        // 0: the likeliest
    int32_t top_k;            // 0: off
};

namespace {

inline bool any(Ints truths) {
#if LANES == 16
    return _mm512_test_epi32_mask(bits_as<__m512i>(truths), bits_as<__m512i>(truths)) != 0;
#else
    uint64_t words[LANES / 2], whole = 0;
    std::memcpy(words, &truths, sizeof words);
    for (uint64_t word : words) whole |= word;
    return whole != 0;
#endif
}

inline Words lane_numbers() {
    Words result;
    for (int lane = 0; lane < LANES; lane++) result[lane] = uint32_t(lane);
    return result;
}

inline uint64_t mix_64(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

inline uint64_t noise_key(const Settings& row) {
    return mix_64(mix_64(row.seed) + (row.position + 1) * 0x9E3779B97F4A7C15u);
}

inline Words mix_32(Words bits) {
    bits ^= bits >> 16;
    bits *= 0x7FEB352Du;
    bits ^= bits >> 15;
    bits *= 0x846CA68Bu;
    return bits ^ bits >> 16;
}

// The head of a ranking, likeliest first and equal logits by id: what is above `last`, and of its equals the ids below
// `tie_end`.
struct Head {
    float last = -FLT_MAX;
    int tie_end = INT_MAX;

    bool is_shorter_than(const Head& other) const {
        return last != other.last ? last > other.last : tie_end < other.tie_end;
    }
};

// Logits, what they count for, and their ids, ids ascending. Room for one vector more than there can be.
struct List {
    std::vector<float> logits, weights;
    std::vector<int32_t> ids;
    int size = 0;

    void make_room(int count) {
        if (int(ids.size()) >= count + LANES) return;
        logits.resize(count + LANES);
        weights.resize(count + LANES);
        ids.resize(count + LANES);
    }
    // May write over what was read, being behind it.
    void add(Floats some, Floats their_weights, Words their_ids, Ints which) {
#if LANES == 16
        const __mmask16 mask = _mm512_test_epi32_mask(bits_as<__m512i>(which), bits_as<__m512i>(which));
        _mm512_storeu_ps(&logits[size], _mm512_maskz_compress_ps(mask, bits_as<__m512>(some)));
        _mm512_storeu_ps(&weights[size], _mm512_maskz_compress_ps(mask, bits_as<__m512>(their_weights)));
        _mm512_storeu_si512(&ids[size], _mm512_maskz_compress_epi32(mask, bits_as<__m512i>(their_ids)));
        size += __builtin_popcount(mask);
#else
        for (int lane = 0; lane < LANES; lane++) {
            logits[size] = some[lane];
            weights[size] = their_weights[lane];
            ids[size] = int32_t(their_ids[lane]);
            size -= which[lane];
        }
#endif
    }
    void end() {
        store(&logits[size], all(IMPOSSIBLE));
        store(&weights[size], Floats{});
    }
    Words ids_at(int i) const {
        Words result;
        std::memcpy(&result, &ids[i], sizeof result);
        return result;
    }
};

// Each counts as one.
struct Count {
    Floats operator()(Floats) const { return all(1.0f); }
};

// exp((logit - greatest) / temperature) · 2^s; its sums leave out the fractions.
struct Mass {
    float greatest, slope, scale;  // slope: 1 / temperature

    Floats operator()(Floats logits) const { return exponential((logits - greatest) * slope) * scale; }
};

// Not above 2^52.
inline Floats without_fraction(Floats positive) {
    const Floats floored = __builtin_convertvector(__builtin_convertvector(positive, Ints), Floats);
    return positive < 0x1p23f ? floored : positive;  // from there on a float has no fraction
}

// Of what numbers have before the point: exact, in whatever order.
class Sum {
   public:
    void add(Floats values) {
#if LANES == 16 && defined(__AVX512DQ__)
        const __m512 all_of_them = bits_as<__m512>(values);
        low_ = _mm512_add_epi64(low_, _mm512_cvttps_epi64(_mm512_castps512_ps256(all_of_them)));
        high_ = _mm512_add_epi64(high_, _mm512_cvttps_epi64(_mm512_extractf32x8_ps(all_of_them, 1)));
#else
        sums_ += __builtin_convertvector(without_fraction(values), Doubles);
#endif
    }
    int64_t total() const {
#if LANES == 16 && defined(__AVX512DQ__)
        return _mm512_reduce_add_epi64(_mm512_add_epi64(low_, high_));
#else
        double result = 0;
        for (int lane = 0; lane < LANES; lane++) result += sums_[lane];
        return int64_t(result);
#endif
    }

   private:
#if LANES == 16 && defined(__AVX512DQ__)
    __m512i low_ = _mm512_setzero_si512(), high_ = _mm512_setzero_si512();
#else
    Doubles sums_{};  // below 2^53
#endif
};

class Row {
   public:
    // The lowest id of the greatest logit; -1 where nothing is possible.
    template <typename Logit> int likeliest(const Logit* logits, int size, const uint32_t* allowed) {
        read<false>(logits, size, allowed);
        if (greatest_ == IMPOSSIBLE) return -1;
        int block = 0;
        while (maxima_[block] != greatest_) block++;
        for (int id = block * BLOCK_SIZE;; id++)
            if (to_float(logits[id]) == greatest_ && (!allowed || allowed[id / 32] >> (id % 32) & 1)) return id;
    }

    // The winner of the race among those that stay; -1 where nothing is possible.
    template <typename Logit> int draw(const Logit* logits, int size, const Settings& row) {
        logits_.resize((size + BLOCK_SIZE - 1) / BLOCK_SIZE * BLOCK_SIZE);
        read<true>(logits, size, row.allowed);
        if (greatest_ == IMPOSSIBLE) return -1;
        if (greatest_ == INFINITY) make_finite();
        list_.make_room(size);
        int bits = 0;
        while (bits < 31 && (size - 1) >> bits) bits++;
        const Mass mass{greatest_, 1 / row.temperature, float(std::ldexp(1.0, 52 - bits))};
        Head head;
        const auto cut = [&](Head other) {
            if (other.is_shorter_than(head)) head = other;
        };
        if (row.top_k > 0 && row.top_k < size) cut(find_top_k_head(row.top_k));
        if (row.top_p < 1.0) cut(find_top_p_head(mass, row.top_p));
        if (row.min_p > 0.0) cut(find_min_p_head(mass, row.min_p));
        return race(head, row.temperature, noise_key(row));
    }

   private:
    std::vector<float> logits_, maxima_, ranked_;  // in whole blocks; of each block; in another order
    float greatest_ = 0;
    List list_;

    // What is NaN or not allowed becomes impossible.
    template <bool STORES, typename Logit> void read(const Logit* logits, int size, const uint32_t* allowed) {
        const int num_blocks = (size + BLOCK_SIZE - 1) / BLOCK_SIZE;
        maxima_.resize(num_blocks);
        greatest_ = IMPOSSIBLE;
        alignas(64) float last[BLOCK_SIZE];
        const Words lane_bits = all(1u) << lane_numbers();
        for (int block = 0; block < num_blocks; block++) {
            const Logit* from = logits + int64_t(block) * BLOCK_SIZE;
            const int count = std::min(size - block * BLOCK_SIZE, BLOCK_SIZE);
            if (count < BLOCK_SIZE) {
                std::fill(last, last + BLOCK_SIZE, IMPOSSIBLE);
                for (int i = 0; i < count; i++) last[i] = to_float(from[i]);
            }
            Floats largest_here = all(IMPOSSIBLE);
            for (int i = 0; i < BLOCK_SIZE; i += LANES) {
                Floats some = count < BLOCK_SIZE ? load(last + i) : load(from + i);
                const int id = block * BLOCK_SIZE + i;
                if (allowed && i < count) {
                    const Words bits = all(allowed[id / 32] >> (id % 32)) & lane_bits;
                    some = bits != 0 ? some : all(IMPOSSIBLE);
                }
                if (STORES) {
                    some = some == some ? some : all(IMPOSSIBLE);
                    store(&logits_[id], some);
                }
                largest_here = larger(some, largest_here);  // never a NaN
            }
            maxima_[block] = largest(largest_here);
            greatest_ = std::max(greatest_, maxima_[block]);
        }
    }

    void make_finite() {
        greatest_ = FLT_MAX;
        for (float& logit : logits_) logit = std::min(logit, FLT_MAX);
        for (float& logit : maxima_) logit = std::min(logit, FLT_MAX);
    }

    // `least` may rise meanwhile.
    template <typename Body> void each_from(const float& least, const Body& body) const {
        for (size_t block = 0; block < maxima_.size(); block++) {
            if (maxima_[block] < least) continue;
            const int start = int(block) * BLOCK_SIZE;
            for (int id = start; id < start + BLOCK_SIZE; id += LANES) body(id, load(&logits_[id]));
        }
    }

    // Below the logit whose weight is this share of the greatest's, by little.
    float logit_below(double share, const Mass& mass) const {
        const double logit = greatest_ + (std::log(share) - 0.01) / mass.slope - 1e-6 * std::abs(greatest_);
        return float(std::max(logit, -double(FLT_MAX)));
    }

    Head find_top_k_head(int top_k) {
        // As many blocks, and so as many logits at least, reach the block maximum of rank top_k.
        float least = -FLT_MAX;
        if (top_k <= int(maxima_.size())) {
            ranked_ = maxima_;
            std::nth_element(ranked_.begin(), ranked_.begin() + top_k - 1, ranked_.end(), std::greater<float>());
            least = std::max(ranked_[top_k - 1], least);
        }
        return find_head(Count{}, top_k - 1, least);
    }

    Head find_top_p_head(const Mass& mass, double top_p) {
        Sum sum;
        each_from(logit_below(1 / mass.scale, mass), [&](int, Floats some) { sum.add(mass(some)); });
        const double whole = double(sum.total());
        // Were all logits below this one, they would have no more than what top_p leaves out.
        const double share = (1 - top_p) * whole / (double(mass.scale) * double(logits_.size()));
        return find_head(mass, int64_t(std::floor(top_p * whole)), logit_below(share, mass));
    }

    Head find_min_p_head(const Mass& mass, double min_p) const {
        const float limit = float(min_p * mass.scale);
        Floats last = all(greatest_);
        each_from(logit_below(min_p, mass), [&](int, Floats some) {
            const Ints stays = (without_fraction(mass(some)) >= limit) & (some > IMPOSSIBLE);
            last = stays & (some < last) ? some : last;
        });
        return {-largest(-last), INT_MAX};
    }

    // Those stay before which there is at most `most_before`; the last of them is at `least` or above.
    template <typename Measure> Head find_head(const Measure& measure, int64_t most_before, float least) {
        list_.size = 0;
        Sum sum;
        each_from(least, [&](int id, Floats some) {
            const Ints is_near = some >= least;
            if (!any(is_near)) return;
            const Floats weights = is_near ? measure(some) : Floats{};
            sum.add(weights);
            list_.add(some, weights, lane_numbers() + uint32_t(id), is_near);
        });
        list_.end();
        if (sum.total() <= most_before) return Head{};
        return split(most_before);
    }

    // Looks in the upper or the lower half of the list, by value, until few are left, or equals.
    Head split(int64_t most_before) {
        int64_t before = 0;  // above all that are left
        while (list_.size > FEW) {
            Floats least = all(INFINITY), most = all(IMPOSSIBLE);
            for (int i = 0; i < list_.size; i += LANES) {
                const Floats some = load(&list_.logits[i]);
                most = larger(some, most);
                least = (some < least) & (some > IMPOSSIBLE) ? some : least;
            }
            const float top = largest(most), bottom = -largest(-least);
            if (top == bottom) return head_of_equals(most_before - before);
            float middle = bottom / 2 + top / 2;
            if (!(middle > bottom && middle <= top)) middle = top;
            Sum upper;
            for (int i = 0; i < list_.size; i += LANES)
                upper.add(load(&list_.logits[i]) >= middle ? load(&list_.weights[i]) : Floats{});
            const bool takes_upper = before + upper.total() > most_before;
            if (!takes_upper) before += upper.total();
            const int size = list_.size;
            list_.size = 0;
            for (int i = 0; i < size; i += LANES) {
                const Floats some = load(&list_.logits[i]);
                const Ints stays = takes_upper ? some >= middle : (some < middle) & (some > IMPOSSIBLE);
                list_.add(some, load(&list_.weights[i]), list_.ids_at(i), stays);
            }
            list_.end();
        }
        return head_of_few(most_before - before);
    }

    Head head_of_equals(int64_t most_before) const {
        const int64_t each = int64_t(list_.weights[0]);
        const int64_t num_more = each ? most_before / each : list_.size;
        return {list_.logits[0], list_.ids[size_t(std::min<int64_t>(num_more, list_.size - 1))] + 1};
    }

    Head head_of_few(int64_t most_before) const {
        int order[FEW];
        for (int i = 0; i < list_.size; i++) order[i] = i;
        std::sort(order, order + list_.size, [&](int a, int b) {
            return list_.logits[a] != list_.logits[b] ? list_.logits[a] > list_.logits[b] : a < b;
        });
        Head head;
        int64_t before = 0;
        for (int i = 0; i < list_.size && before <= most_before; i++) {
            head = {list_.logits[order[i]], list_.ids[order[i]] + 1};
            before += int64_t(list_.weights[order[i]]);
        }
        return head;
    }

    // The noise of a token is at least u, and so is known to be too late for most tokens from a rough logarithm.
    int race(const Head& head, float temperature, uint64_t key) const {
        const Words lane_steps = lane_numbers() * TOKEN_STEP;
        const float slope = float(1.4426950408889634 / temperature);
        float base = 200;  // log2 of the earliest arrival · 2^32, a float's bias of 127 added: nobody has arrived
        float least = head.last;  // of those that can still win
        double earliest = INFINITY;
        int winner = -1;
        each_from(least, [&](int id, Floats some) {
            Words bits = mix_32(lane_steps + (uint32_t(id) * TOKEN_STEP + uint32_t(key)));
            bits = mix_32(bits + uint32_t(key >> 32));
            // A float's bits are its logarithm, at most 0.09 too small.
            const Ints rough = bits_as<Ints>(__builtin_convertvector(bits, Floats));
            const Floats limits = larger((some - greatest_) * slope + base, all(0.0f));
            const Ints is_early = rough <= __builtin_convertvector(limits * 0x1p23f, Ints);
            if (!any(is_early & (some >= head.last))) return;
            for (int lane = 0; lane < LANES; lane++) {
                const float logit = some[lane];
                if (!is_early[lane] || logit < head.last || (logit == head.last && id + lane >= head.tie_end)) continue;
                const double arrival = arrival_of(bits[lane], (logit - greatest_) / temperature);
                if (arrival < earliest) {
                    earliest = arrival;
                    winner = id + lane;
                    base = float(std::log2(earliest)) + (32 + 127 + 0.02f);
                    // u · 2^32 is at least 1/2.
                    least = std::max(least, greatest_ - (base - 125) / slope);
                }
            }
        });
        return winner;
    }

    static double arrival_of(uint32_t bits, float below) {
        const float u = std::min(float(bits) * 0x1p-32f + 0x1p-33f, 1.0f - 0x1p-24f);
        return -std::log1p(-double(u)) * std::exp(-double(below));
    }
};

template <typename Logit>
int choose(Row& row, const Logit* logits, int size, const Settings& wanted) {
    const int id = wanted.temperature == 0 ? row.likeliest(logits, size, wanted.allowed) : row.draw(logits, size, wanted);
    return id < 0 && !wanted.allowed ? 0 : id;
}

}  // namespace

// A token each; where nothing is possible 0, or -1 if only some are allowed. `stride` counts logits, which are float or,
// if `is_bfloat16`, what the model rounds them to.
extern "C" void lockstep_sample(const void* logits, int32_t is_bfloat16, int64_t stride, int32_t num_rows,
                                int32_t vocab_size, const Settings* settings, int64_t* token_ids, int32_t num_threads) {
    work_together(num_rows > 1 ? num_threads : 1, [&](Member& member) {
        static thread_local std::unique_ptr<Row> owned;
        if (!owned) owned.reset(new Row);
        member.share(num_rows, [&](int64_t index, const MayWrite& may_write) {
            const int64_t start = index * stride;
            const int id =
                is_bfloat16
                    ? choose(*owned, static_cast<const BFloat16*>(logits) + start, vocab_size, settings[index])
                    : choose(*owned, static_cast<const float*>(logits) + start, vocab_size, settings[index]);
            if (may_write()) token_ids[index] = id;
        });
    });
}
