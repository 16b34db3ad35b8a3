// The FOD at unit vectors, and its derivatives. Twin of cpu/sphere/evaluation.py, which explains
// the form.
#pragma once

// Root and quotient, correctly rounded, of numbers that are neither zero nor of extreme size. The
// compiler's own ask about that first, at each place, by branches that keep it from mixing the code of
// what is before and after.
#ifdef __CUDA_ARCH__

DEVICE float root(float x)
{
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    float found = x * inverse;
    return __fmaf_rn(__fmaf_rn(-found, found, x), 0.5f * inverse, found);
}

DEVICE float divided(float a, float b)
{
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    inverse = __fmaf_rn(__fmaf_rn(-b, inverse, 1.0f), inverse, inverse);
    float found = a * inverse;
    found = __fmaf_rn(__fmaf_rn(-b, found, a), inverse, found);
    return __fmaf_rn(__fmaf_rn(-b, found, a), inverse, found);
}

#else

DEVICE float root(float x)
{
    return sqrtf(x);
}

DEVICE float divided(float a, float b)
{
    return a / b;
}

#endif

// The FOD, its gradient in space and its second derivatives; that by y is minus that by x.
struct Derivatives {
    float value, gx, gy, gz, hxx, hxy, hxz, hyz, hzz;
};

// What is taken from z^2 for order m, see fields/polynomials.py.
DEVICE float shift_of(int m)
{
    return 1.0f / (float)(m + 2);
}

// What follows is for the even degrees, of which `largest` is the largest, and for the odd ones of an
// asymmetric FOD.
#if ASYMMETRIC
#define FOR_EACH_PARITY \
    _Pragma("unroll") for (int largest = LMAX; largest >= LMAX - 1; largest--)
#else
#define FOR_EACH_PARITY const int largest = LMAX;
#endif

// The FOD at several unit vectors, without any positivity: each coefficient is read once.
template <int N, class AnyFod>
DEVICE void values_at(const AnyFod& c, const float* x, const float* y, const float* z, float* values)
{
    float w[N], re[N], im[N], first[N], cosine[N], sine[N];
    int at = 0;
#define FOR_EACH_VECTOR _Pragma("unroll") for (int n = 0; n < N; n++)
    FOR_EACH_VECTOR w[n] = z[n] * z[n];
    FOR_EACH_PARITY
    {
        float coefficient = c[at++];
        FOR_EACH_VECTOR first[n] = coefficient;
#pragma unroll
        for (int k = 0; k < largest / 2; k++) {
            coefficient = c[at++];
            FOR_EACH_VECTOR first[n] = first[n] * (w[n] - shift_of(0)) + coefficient;
        }
        FOR_EACH_VECTOR
        {
            values[n] = largest == LMAX ? first[n] : values[n] + first[n] * z[n];
            re[n] = x[n];  // of (x + i y)^m
            im[n] = y[n];
        }
#pragma unroll
        for (int m = 1; m <= largest; m++) {
            FOR_EACH_VECTOR
            {
                cosine[n] = c[at];
                sine[n] = c[at + 1];
            }
            at += 2;
#pragma unroll
            for (int k = 0; k < (largest - m) / 2; k++) {
                FOR_EACH_VECTOR
                {
                    float v = w[n] - shift_of(m);
                    cosine[n] = cosine[n] * v + c[at];
                    sine[n] = sine[n] * v + c[at + 1];
                }
                at += 2;
            }
            FOR_EACH_VECTOR
            {
                float term = cosine[n] * re[n] + sine[n] * im[n];
                if ((largest - m) & 1) term = term * z[n];
                values[n] = values[n] + term;
                float next = x[n] * re[n] - y[n] * im[n];
                im[n] = x[n] * im[n] + y[n] * re[n];
                re[n] = next;
            }
        }
    }
#undef FOR_EACH_VECTOR
}

// The FOD at a unit vector, without any positivity.
template <class AnyFod> DEVICE float value_at(const AnyFod& c, float x, float y, float z)
{
    float value;
    values_at<1>(c, &x, &y, &z, &value);
    return value;
}

// a b + c, rounded once or twice: for what is compared with room to spare.
DEVICE float fused(float a, float b, float c)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return a * b + c;
#endif
}

// The FOD at a unit vector, convolved about it; see tables/cone_mass.py. Arrays of tables begin where
// four numbers can be read at once.
template <class AnyFod>
DEVICE float convolved_at(const AnyFod& c, const float* numbers, float x, float y, float z)
{
    numbers = (const float*)__builtin_assume_aligned(numbers, 16);
    float w = z * z, value = 0.0f;
    int at = 0, k = 1;
    FOR_EACH_PARITY
    {
        float v = w - shift_of(0), first = 0.0f;
#pragma unroll
        for (int power = largest / 2; power >= 0; power--) {
            float factor = numbers[k++];
#pragma unroll
            for (int j = 0; j < power; j++) factor = fused(factor, v, numbers[k++]);
            first = fused(factor, c[at++], first);
        }
        value = largest == LMAX ? first : fused(first, z, value);
        float re = x, im = y;  // of (x + i y)^m
#pragma unroll
        for (int m = 1; m <= largest; m++) {
            v = w - shift_of(m);
            float cosine = 0.0f, sine = 0.0f;
#pragma unroll
            for (int power = (largest - m) / 2; power >= 0; power--) {
                float factor = numbers[k++];
#pragma unroll
                for (int j = 0; j < power; j++) factor = fused(factor, v, numbers[k++]);
                cosine = fused(factor, c[at], cosine);
                sine = fused(factor, c[at + 1], sine);
                at += 2;
            }
            float term = fused(cosine, re, sine * im);
            if ((largest - m) & 1) term = term * z;
            value = value + term;
            float next = fused(x, re, -(y * im));
            im = fused(x, im, y * re);
            re = next;
        }
    }
    return value;
}

// A polynomial in v, its first and half its second derivative.
struct Polynomial {
    float value, first, second;
};

// Multiply by v, and add the next coefficient.
DEVICE void append(Polynomial& p, float v, float coefficient)
{
    p.second = p.second * v + p.first;
    p.first = p.first * v + p.value;
    p.value = p.value * v + coefficient;
}

// From a polynomial in v to a function of z and its derivatives, with the factor z where there is one.
DEVICE Polynomial in_z(const Polynomial& p, bool times_z, float z, float w)
{
    if (times_z) {
        Polynomial odd = {p.value * z, p.value + 2.0f * w * p.first,
                          6.0f * z * p.first + 4.0f * w * z * (p.second + p.second)};
        return odd;
    }
    Polynomial even = {p.value, 2.0f * z * p.first,
                       2.0f * p.first + 4.0f * w * (p.second + p.second)};
    return even;
}

// Real and imaginary part of (x + i y)^m, and of the two powers before.
struct Powers {
    float re, im, re_1, im_1, re_2, im_2;
};

DEVICE Powers first_power(float x, float y)
{
    Powers powers = {x, y, 1.0f, 0.0f, 0.0f, 0.0f};
    return powers;
}

DEVICE void raise(Powers& z, float x, float y)
{
    z.re_2 = z.re_1;
    z.im_2 = z.im_1;
    z.re_1 = z.re;
    z.im_1 = z.im;
    z.re = x * z.re_1 - y * z.im_1;
    z.im = x * z.im_1 + y * z.re_1;
}

// What order m adds, of functions of z by the cosine and by the sine. Of the powers 0 and -1, which are 1
// and 0, no multiples are taken.
DEVICE Derivatives terms_of(int m, const Polynomial& p, const Polynomial& q, const Powers& z)
{
    float order = (float)m, pairs = (float)(m * (m - 1));
    Derivatives d;
    d.value = p.value * z.re + q.value * z.im;
    d.gx = m > 1 ? order * (p.value * z.re_1 + q.value * z.im_1) : p.value;
    d.gy = m > 1 ? order * (q.value * z.re_1 - p.value * z.im_1) : q.value;
    d.gz = p.first * z.re + q.first * z.im;
    d.hxx = m > 2 ? pairs * (p.value * z.re_2 + q.value * z.im_2) : m > 1 ? pairs * p.value : 0.0f;
    d.hxy = m > 2 ? pairs * (q.value * z.re_2 - p.value * z.im_2) : m > 1 ? pairs * q.value : 0.0f;
    d.hxz = m > 1 ? order * (p.first * z.re_1 + q.first * z.im_1) : p.first;
    d.hyz = m > 1 ? order * (q.first * z.re_1 - p.first * z.im_1) : q.first;
    d.hzz = p.second * z.re + q.second * z.im;
    return d;
}

// The FOD at a unit vector, and its derivatives.
template <class AnyFod>
DEVICE Derivatives derivatives_at(const AnyFod& c, float x, float y, float z)
{
    float w = z * z;
    Derivatives d = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int at = 0;
    FOR_EACH_PARITY
    {
        float v = w - shift_of(0);
        Polynomial p = {c[at++], 0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < largest / 2; k++) append(p, v, c[at++]);
        p = in_z(p, largest & 1, z, w);
        d.value = d.value + p.value;
        d.gz = d.gz + p.first;
        d.hzz = d.hzz + p.second;
        Powers powers = first_power(x, y);
#pragma unroll
        for (int m = 1; m <= largest; m++) {
            v = w - shift_of(m);
            Polynomial q = {c[at + 1], 0.0f, 0.0f};
            p = {c[at], 0.0f, 0.0f};
            at += 2;
#pragma unroll
            for (int k = 0; k < (largest - m) / 2; k++) {
                append(p, v, c[at]);
                append(q, v, c[at + 1]);
                at += 2;
            }
            bool times_z = (largest - m) & 1;
            Derivatives term = terms_of(m, in_z(p, times_z, z, w), in_z(q, times_z, z, w), powers);
            d.value = d.value + term.value;
            d.gx = d.gx + term.gx;
            d.gy = d.gy + term.gy;
            d.gz = d.gz + term.gz;
            d.hxx = d.hxx + term.hxx;
            d.hxy = d.hxy + term.hxy;
            d.hxz = d.hxz + term.hxz;
            d.hyz = d.hyz + term.hyz;
            d.hzz = d.hzz + term.hzz;
            raise(powers, x, y);
        }
    }
    return d;
}
