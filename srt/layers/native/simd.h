// Vectors of floats, as wide as the processor has them; bfloat16 and float16 in and out.
//
// Written with the compiler's own vector types, so that the same source runs on every processor. What bfloat16
// multiplies in hardware is used where the build knows of it (USE_BF16_DOT); elsewhere values become floats first.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LANES 16
#else
#define LANES 8
#endif

#if LANES == 16 && defined(__AVX512BF16__)
#define USE_BF16_DOT 1
#else
#define USE_BF16_DOT 0
#endif

#if LANES == 16 && defined(__AVX512VNNI__)
#define USE_BYTE_DOT 1
#else
#define USE_BYTE_DOT 0
#endif

typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
typedef int16_t Shorts __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));

struct BFloat16 {
    uint16_t bits;
};
struct Float16 {
    uint16_t bits;
};

template <typename To, typename From> inline To bits_as(const From& value) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}

// The very bits in every lane: they may be a pair of bfloat16.
inline Floats all(float value) {
#if LANES == 16
    return bits_as<Floats>(_mm512_set1_ps(value));
#else
    return Floats{value, value, value, value, value, value, value, value};
#endif
}

inline float to_float(float value) { return value; }
inline float to_float(BFloat16 value) { return bits_as<float>(uint32_t(value.bits) << 16); }
inline float to_float(Float16 value) {
    const uint32_t sign = uint32_t(value.bits & 0x8000) << 16, magnitude = value.bits & 0x7fff;
    if (magnitude >= 0x7c00) return bits_as<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    // Shifted into a float's fields, the exponent is 112 too small; the product mends subnormal numbers, too.
    return bits_as<float>(sign | bits_as<uint32_t>(bits_as<float>(magnitude << 13) * 0x1p112f));
}

inline Floats load(const float* from) {
    Floats result;
    std::memcpy(&result, from, sizeof result);
    return result;
}
inline Floats load(const BFloat16* from) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    return bits_as<Floats>(__builtin_convertvector(halves, Words) << 16);
}
inline Floats load(const Float16* from) {
#if LANES == 16
    return bits_as<Floats>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(__F16C__) && defined(__AVX__)
    return bits_as<Floats>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
    Floats result;
    for (int lane = 0; lane < LANES; lane++) result[lane] = to_float(from[lane]);
    return result;
#endif
}

// Round to the nearest, ties to even; a NaN stays one.
inline Words bf16_bits(Floats values) {
    const Words bits = bits_as<Words>(values);
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (values == values) ? rounded : ((bits >> 16) | 0x40);
}

inline void store(float* to, Floats values) { std::memcpy(to, &values, sizeof values); }
inline Halves bf16_halves(Floats values) {
#if USE_BF16_DOT
    return bits_as<Halves>(_mm512_cvtneps_pbh(bits_as<__m512>(values)));  // numbers too small for the exponent become 0
#else
    return __builtin_convertvector(bf16_bits(values), Halves);
#endif
}
inline void store(BFloat16* to, Floats values) {
    const Halves halves = bf16_halves(values);
    std::memcpy(to, &halves, sizeof halves);
}
inline void store(Float16* to, Floats values) {
#if LANES == 16
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(bits_as<__m512>(values), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__) && defined(__AVX__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(bits_as<__m256>(values), 0));
#else
    for (int lane = 0; lane < LANES; lane++) {
        const uint32_t bits = bits_as<uint32_t>(float(values[lane])), magnitude = bits & 0x7fffffff;
        uint32_t half;
        if (magnitude > 0x7f800000) {
            half = 0x7e00;
        } else if (magnitude >= 0x477ff000) {
            half = 0x7c00;
        } else if (magnitude < 0x38800000) {
            // Added to a half, what is below a subnormal's last place is rounded off.
            half = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000;
        } else {
            half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
        }
        to[lane].bits = uint16_t(half | (bits >> 16 & 0x8000));
    }
#endif
}

inline BFloat16 to_bfloat16(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    if (value != value) return {uint16_t(bits >> 16 | 0x40)};
    return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline Words all(uint32_t value) { return bits_as<Words>(all(bits_as<float>(value))); }

// sums + left · right, where each lane holds two neighbouring bfloat16.
inline Floats add_products(Floats sums, Words left, Words right) {
#if USE_BF16_DOT
    return bits_as<Floats>(
        _mm512_dpbf16_ps(bits_as<__m512>(sums), bits_as<__m512bh>(left), bits_as<__m512bh>(right)));
#else
    sums += bits_as<Floats>(left & 0xffff0000u) * bits_as<Floats>(right & 0xffff0000u);
    return sums + bits_as<Floats>(left << 16) * bits_as<Floats>(right << 16);
#endif
}

#if LANES == 16
inline Ints add_pairs(Shorts left, Shorts right) {
    return bits_as<Ints>(_mm512_madd_epi16(bits_as<__m512i>(left), bits_as<__m512i>(right)));
}
#elif defined(__AVX2__)
inline Ints add_pairs(Shorts left, Shorts right) {
    return bits_as<Ints>(_mm256_madd_epi16(bits_as<__m256i>(left), bits_as<__m256i>(right)));
}
#endif

// sums + left · right, where each lane holds four neighbouring bytes, those of `left` without a sign.
inline Ints add_byte_products(Ints sums, Words left, Words right) {
#if USE_BYTE_DOT
    return bits_as<Ints>(_mm512_dpbusd_epi32(bits_as<__m512i>(sums), bits_as<__m512i>(left), bits_as<__m512i>(right)));
#elif LANES == 16 || defined(__AVX2__)
    const Words low_halves = all(0x00ff00ffu);
    const Shorts even = bits_as<Shorts>(right) << 8 >> 8, odd = bits_as<Shorts>(right) >> 8;
    return sums + add_pairs(bits_as<Shorts>(left & low_halves), even) +
           add_pairs(bits_as<Shorts>(left >> 8 & low_halves), odd);
#else
    for (int byte = 0; byte < 4; byte++)
        sums += bits_as<Ints>(left >> (8 * byte) & 0xff) * (bits_as<Ints>(right << (24 - 8 * byte)) >> 24);
    return sums;
#endif
}

inline float sum(Floats values) {
#if LANES == 16
    return _mm512_reduce_add_ps(bits_as<__m512>(values));
#else
    float parts[LANES];
    store(parts, values);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++) parts[lane] += parts[lane + half];
    return parts[0];
#endif
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

inline float largest(Floats values) {
#if LANES == 16
    return _mm512_reduce_max_ps(bits_as<__m512>(values));
#else
    float result = values[0];
    for (int lane = 1; lane < LANES; lane++) result = values[lane] > result ? values[lane] : result;
    return result;
#endif
}

inline uint32_t largest(Words values) {
#if LANES == 16
    return _mm512_reduce_max_epu32(bits_as<__m512i>(values));
#else
    uint32_t result = values[0];
    for (int lane = 1; lane < LANES; lane++) result = values[lane] > result ? values[lane] : result;
    return result;
#endif
}

// e^x within 2 units in the last place for x ≤ 88; 0 below −87. Cody and Waite's reduction, Cephes' polynomial.
inline Floats exponential(Floats x) {
    const Floats clamped = larger(x, all(-87.5f));
    const Floats shifted = clamped * 1.44269504088896341f + 0x1.8p23f;  // the low bits now hold round(x / ln 2)
    const Floats turns = shifted - 0x1.8p23f;
    Floats rest = clamped - turns * 0.693359375f;
    rest = rest + turns * 2.12194440e-4f;
    Floats power = all(1.9875691500e-4f);
    power = power * rest + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * (rest * rest) + rest + 1.0f;
    const Floats scaled = bits_as<Floats>(bits_as<Words>(power) + (bits_as<Words>(shifted) << 23));
    return x < -87.0f ? Floats{} : scaled;
}

// The same; the compiler does not load or compute it anew for each of its uses.
inline Words in_register(Words value) {
#if LANES == 16
    asm("" : "+v"(value));
#endif
    return value;
}

// Calls `body` with a constant of at most MAX that equals `count`: inner loops want to know their size.
template <int MAX, typename Body> inline void with_constant(int count, const Body& body) {
    if constexpr (MAX > 1) {
        if (count < MAX) return with_constant<MAX - 1>(count, body);
    }
    body(std::integral_constant<int, MAX>());
}
