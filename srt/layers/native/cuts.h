// Where the ranking of a row's tokens is cut by top-k, top-p and min-p; srt/sampling/exponential_race.py has the rules.
//
// No cut sorts: each is a search for the value down to which tokens stay, over those that may be near it.

#pragma once

#include "logit_row.h"

#include <climits>
#include <cstdint>
#include <functional>

constexpr int FEW = 32;  // so many are sorted rather than split further

typedef double Doubles __attribute__((vector_size(LANES * 8)));

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
    // Their weights are yet to come.
    void add(Floats some, Words their_ids, Ints which) {
#if LANES == 16
        const __mmask16 mask = _mm512_test_epi32_mask(bits_as<__m512i>(which), bits_as<__m512i>(which));
        _mm512_storeu_ps(&logits[size], _mm512_maskz_compress_ps(mask, bits_as<__m512>(some)));
        _mm512_storeu_si512(&ids[size], _mm512_maskz_compress_epi32(mask, bits_as<__m512i>(their_ids)));
        size += __builtin_popcount(mask);
#else
        for (int lane = 0; lane < LANES; lane++) {
            logits[size] = some[lane];
            ids[size] = int32_t(their_ids[lane]);
            size -= which[lane];
        }
#endif
    }
    // May write over what was read, being behind it.
    void add(Floats some, Floats their_weights, Words their_ids, Ints which) {
#if LANES == 16
        const __mmask16 mask = _mm512_test_epi32_mask(bits_as<__m512i>(which), bits_as<__m512i>(which));
        _mm512_storeu_ps(&weights[size], _mm512_maskz_compress_ps(mask, bits_as<__m512>(their_weights)));
#else
        for (int lane = 0, at = size; lane < LANES; at -= which[lane++]) weights[at] = their_weights[lane];
#endif
        add(some, their_ids, which);
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

// Each gives the part of the ranking that stays.
class Cuts {
  public:
    explicit Cuts(const LogitRow& row) : row_(row) {}

    Head find_top_k_head(int top_k) {
        // As many blocks, and so as many logits at least, reach the block maximum of rank top_k.
        float least = -FLT_MAX;
        if (top_k <= int(row_.maxima().size())) {
            ranked_ = row_.maxima();
            std::nth_element(ranked_.begin(), ranked_.begin() + top_k - 1, ranked_.end(), std::greater<float>());
            least = std::max(ranked_[top_k - 1], least);
        }
        return find_head(Count{}, top_k - 1, least);
    }

    Head find_top_p_head(const Mass& mass, double top_p) {
        Sum sum;
        row_.each_from(logit_below(1 / mass.scale, mass), [&](int, Floats some) { sum.add(mass(some)); });
        const double whole = double(sum.total());
        // Were all logits below this one, they would have no more than what top_p leaves out.
        const double share = (1 - top_p) * whole / (double(mass.scale) * double(row_.size()));
        return find_head(mass, int64_t(std::floor(top_p * whole)), logit_below(share, mass));
    }

    Head find_min_p_head(const Mass& mass, double min_p) const {
        const float limit = float(min_p * mass.scale);
        Floats last = all(row_.greatest());
        row_.each_from(logit_below(min_p, mass), [&](int, Floats some) {
            const Ints stays = (without_fraction(mass(some)) >= limit) & (some > IMPOSSIBLE);
            last = stays & (some < last) ? some : last;
        });
        return {-largest(-last), INT_MAX};
    }

  private:
    const LogitRow& row_;
    std::vector<float> ranked_;  // block maxima, in another order
    List list_;

    // Below the logit whose weight is this share of the greatest's, by little.
    static float logit_below(double share, const Mass& mass) {
        const double logit = mass.greatest + (std::log(share) - 0.01) / mass.slope - 1e-6 * std::abs(mass.greatest);
        return float(std::max(logit, -double(FLT_MAX)));
    }

    // Those stay before which there is at most `most_before`; the last of them is at `least` or above.
    template <typename Measure> Head find_head(const Measure& measure, int64_t most_before, float least) {
        list_.make_room(row_.size());
        list_.size = 0;
        row_.each_from(least, [&](int id, Floats some) {
            const Ints is_near = some >= least;
            if (any(is_near)) list_.add(some, lane_numbers() + uint32_t(id), is_near);
        });
        list_.end();
        Sum sum;
        for (int i = 0; i < list_.size; i += LANES) {
            const Floats some = load(&list_.logits[i]);
            const Floats weights = some > IMPOSSIBLE ? measure(some) : Floats{};
            store(&list_.weights[i], weights);
            sum.add(weights);
        }
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
};
