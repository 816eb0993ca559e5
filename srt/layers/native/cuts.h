// Whether top-k, top-p and min-p let a token stay; srt/sampling/exponential_race.py has the rules.

#pragma once

#include "race.h"

#include <functional>

// exp((logit - greatest) / temperature) · 2^s; sums leave out the fractions.
struct Mass {
    float greatest, slope, scale;  // slope: 1 / temperature

    Floats operator()(Floats logits) const { return exponential((logits - greatest) * slope) * scale; }
};

// Without the factor, for half the work.
struct RoughMass {
    static constexpr double ERROR = 1e-4;
    float greatest, slope;

    Floats operator()(Floats logits) const {
        const Floats power = larger((logits - greatest) * (slope * 1.44269504f), all(-125.0f));
        const Floats shifted = power + 0x1.8p23f;  // the low bits now hold the nearest whole number
        const Floats rest = power - (shifted - 0x1.8p23f);
        Floats result = rest * 0.05517167f + 0.24261113f;
        result = result * rest + 0.69326097f;
        result = result * rest + 0.99992806f;
        return bits_as<Floats>(bits_as<Words>(result) + (bits_as<Words>(shifted) << 23));
    }
};

// Not above 2^52.
inline Floats without_fraction(Floats positive) {
    const Floats floored = __builtin_convertvector(__builtin_convertvector(positive, Ints), Floats);
    return positive < 0x1p23f ? floored : positive;  // from there on a float has no fraction
}

// Of what numbers have before the point: exact, in whatever order.
class ExactSum {
  public:
    void add(Floats values) {
        const Floats whole = without_fraction(values);
        for (int lane = 0; lane < LANES; lane++) sum_ += int64_t(whole[lane]);
    }
    double total() const { return double(sum_); }

  private:
    int64_t sum_ = 0;
};

// Each addition may err by 2^-24 of the sum.
class RoughSum {
  public:
    void add(Floats values) { sums_ += values; }
    double total() const { return sum(sums_); }

  private:
    Floats sums_{};
};

struct Limits {
    int32_t top_k;        // 0: off
    double top_p, min_p;  // 1 and 0: off
};

// Each cut keeps a head of the ranking. So when the winner of a race among all stays, it is the winner among those that
// stay, too; and when not, none stays that is ranked behind it. Nobody needs to know where a head ends.
template <typename Row> class Cuts {
  public:
    Cuts(const Row& row, const Mass& mass, const Limits& limits) : row_(row), mass_(mass), limits_(limits) {}

    // Holds all that min-p lets stay, and little more.
    Head near_min_p() const {
        if (limits_.min_p <= 0) return {};
        // The weight is that logit's, by little.
        const double last = mass_.greatest + (std::log(limits_.min_p) - 0.01) / mass_.slope;
        return {float(std::max(last - 1e-6 * std::abs(mass_.greatest), -double(FLT_MAX))), INT_MAX};
    }

    // The same of top-k. It takes longer: for those whose first winner does not stay.
    Head near_top_k() const {
        if (limits_.top_k <= 0 || limits_.top_k > row_.num_blocks()) return {};
        // As many blocks, and so as many logits at least, reach the block maximum of rank top_k.
        std::vector<float> ranked = row_.all_maxima();
        std::nth_element(ranked.begin(), ranked.begin() + limits_.top_k - 1, ranked.end(), std::greater<float>());
        return {std::max(ranked[limits_.top_k - 1], -FLT_MAX), INT_MAX};
    }

    // Whether all cuts let the token stay that is ranked next to those `before` it.
    bool keep_next_of(const Head& before) {
        return is_of_top_k(before) && is_likely_enough(before.last) && is_of_top_p(before);
    }

  private:
    const Row& row_;
    const Mass mass_;
    const Limits limits_;
    double whole_ = -1;  // the rough mass of all; below 0: not known yet

    bool is_of_top_k(const Head& before) const {
        if (limits_.top_k <= 0) return true;
        int rank = 0;
        row_.each_block_from(before.last, [&](int start) {
            for (int id = start; id < start + BLOCK_SIZE; id += LANES)
                rank += count(before.holds(row_.at(id), lane_numbers() + uint32_t(id)));
            return rank < limits_.top_k;
        });
        return rank < limits_.top_k;
    }

    bool is_likely_enough(float logit) const {
        if (limits_.min_p <= 0) return true;
        return without_fraction(mass_(all(logit)))[0] >= float(limits_.min_p * mass_.scale);
    }

    bool is_of_top_p(const Head& before) {
        if (limits_.top_p >= 1) return true;
        const RoughMass rough{mass_.greatest, mass_.slope};
        RoughSum reached, of_those;
        add_up(rough, before, before.last, reached, of_those);
        const double mass_before = of_those.total();
        if (whole_ < 0) {
            // A block's mass is that of its likeliest at least, and at most 64 times as much.
            RoughSum likeliest;
            for (int block = 0; block < row_.num_blocks(); block += LANES)
                likeliest.add(row_.maxima(block) >= before.last ? Floats{} : rough(row_.maxima(block)));
            const double least = reached.total() + likeliest.total();
            const double most = reached.total() + BLOCK_SIZE * likeliest.total();
            if (mass_before <= limits_.top_p * least - error_of(most)) return true;
            if (mass_before > limits_.top_p * most + error_of(most)) return false;
            RoughSum all, nothing;
            add_up(rough, before, -FLT_MAX, all, nothing);
            whole_ = all.total();
        }
        const double left = limits_.top_p * whole_ - mass_before;
        return std::abs(left) > error_of(whole_) ? left > 0 : is_exactly_of_top_p(before);
    }

    // By how much two rough sums, together, may differ from exact ones, of which each leaves out less than one a token.
    double error_of(double whole) const {
        return 2 * ((RoughMass::ERROR + row_.size() / LANES * 0x1p-24) * whole + row_.size() / mass_.scale);
    }

    bool is_exactly_of_top_p(const Head& before) const {
        ExactSum all, of_those;
        add_up(mass_, before, -FLT_MAX, all, of_those);
        return of_those.total() <= std::floor(limits_.top_p * all.total());
    }

    // The mass of the blocks that reach `least`, and of those `before` a token.
    template <typename AnyMass, typename Sum>
    void add_up(const AnyMass& mass, const Head& before, float least, Sum& all, Sum& of_those) const {
        row_.each_block_from(least, [&](int start) {
            for (int id = start; id < start + BLOCK_SIZE; id += LANES) {
                const Floats some = row_.at(id), masses = mass(some);
                all.add(masses);
                of_those.add(before.holds(some, lane_numbers() + uint32_t(id)) ? masses : Floats{});
            }
            return true;
        });
    }
};
