// How scores become weights: powers of two of what they are below a row's largest.

#pragma once

#include "attention_products.h"

constexpr float LOG2_E = 1.44269504088896341f;

// 2^x for x ≤ 127 within 2 units in the last place; 0 for −∞.
inline Floats power_of_two(Floats x) {
#if LANES == 16
    // Instructions split off the whole turns (rounding down) and put them back; both know −∞.
    const Floats rest = bits_as<Floats>(_mm512_reduce_ps(bits_as<__m512>(x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
#else
    const Floats clamped = larger(x, all(-126.0f));
    const Floats shifted = clamped - 0.5f + 0x1.8p23f;  // the low bits now hold the turns
    const Floats rest = clamped - (shifted - 0x1.8p23f);
#endif
    Floats power = all(2.16129192e-4f) * rest + 1.24678446e-3f;
    power = power * rest + 9.67545155e-3f;
    power = power * rest + 5.54852821e-2f;
    power = power * rest + 2.40229309e-1f;
    power = power * rest + 6.93147063e-1f;
    power = power * rest + 1.0f;
#if LANES == 16
    return bits_as<Floats>(_mm512_scalef_ps(bits_as<__m512>(power), bits_as<__m512>(x)));
#else
    const Floats scaled = bits_as<Floats>(bits_as<Words>(power) + (bits_as<Words>(shifted) << 23));
    return x < -126.0f ? Floats{} : scaled;
#endif
}

// tanh x = 1 − 2 / (e^2x + 1), with |x| so small that its power is finite.
inline Floats hyperbolic_tangent(Floats x) {
    x = larger(x > 20.0f ? all(20.0f) : x, all(-20.0f));
    return 1.0f - 2.0f / (power_of_two(x * (2 * LOG2_E)) + 1.0f);
}

// What a row sees of a chunk: positions from `begin` on, before `end`. Either may lie beyond the chunk.
struct Sight {
    int begin, end;
};

// Multiplies scores by `scale`, caps them, hides what is not seen; the largest, and what all are to be multiplied by
// before they are exponents of 2. Scores are written only where that changes them.
inline float prepare_scores(float* scores, int num_vectors, Sight sight, float scale, float soft_cap, float& factor) {
    Ints lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    Floats top = all(-INFINITY);
    factor = soft_cap > 0 ? LOG2_E : scale * LOG2_E;
    for (int vector = 0; vector < num_vectors; vector++) {
        Floats values = load(scores + vector * LANES);
        const bool sees_all = sight.begin <= vector * LANES && sight.end >= (vector + 1) * LANES;
        if (soft_cap > 0) values = hyperbolic_tangent(values * (scale / soft_cap)) * soft_cap;
        if (!sees_all) {
            const Ints at = lanes + vector * LANES;
            values = ((at >= sight.begin) & (at < sight.end)) ? values : all(-INFINITY);
        }
        if (!sees_all || soft_cap > 0) store(scores + vector * LANES, values);
        top = larger(top, values);
    }
    return largest(top);
}

// Scores become weights 2^(score · factor − top). Returns their sum. Where the inner loops take pairs of bfloat16, weights
// are rounded to them before they are summed.
template <bool PAIRS> inline float make_weights(float* scores, int num_vectors, float factor, float top) {
    Floats total{};
#if USE_BF16_DOT
    if constexpr (PAIRS) {
        const __m512bh ones = bits_as<__m512bh>(all(uint32_t(0x3f803f80)));
        for (int vector = 0; vector < num_vectors; vector += 2) {
            const Floats low = power_of_two(load(scores + vector * LANES) * factor - top);
            Floats high{};
            if (vector + 1 < num_vectors) high = power_of_two(load(scores + (vector + 1) * LANES) * factor - top);
            const __m512bh both = _mm512_cvtne2ps_pbh(bits_as<__m512>(high), bits_as<__m512>(low));
            std::memcpy(scores + vector / 2 * LANES, &both, sizeof both);
            total = bits_as<Floats>(_mm512_dpbf16_ps(bits_as<__m512>(total), both, ones));
        }
        return sum(total);
    }
#endif
    for (int vector = 0; vector < num_vectors; vector++) {
        const Floats weights = power_of_two(load(scores + vector * LANES) * factor - top);
        store(scores + vector * LANES, weights);
        total += weights;
    }
    return sum(total);
}
