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

// The FOD at a unit vector, without any positivity.
template <class AnyFod> DEVICE float value_at(const AnyFod& c, float x, float y, float z)
{
    float w = z * z, value = 0.0f;
    int at = 0;
    FOR_EACH_PARITY
    {
        float v = w - shift_of(0);
        float first = c[at++];
#pragma unroll
        for (int k = 0; k < largest / 2; k++) first = first * v + c[at++];
        value = largest == LMAX ? first : value + first * z;
        float re = x, im = y;  // of (x + i y)^m
#pragma unroll
        for (int m = 1; m <= largest; m++) {
            v = w - shift_of(m);
            float cosine = c[at], sine = c[at + 1];
            at += 2;
#pragma unroll
            for (int k = 0; k < (largest - m) / 2; k++) {
                cosine = cosine * v + c[at];
                sine = sine * v + c[at + 1];
                at += 2;
            }
            float term = cosine * re + sine * im;
            if ((largest - m) & 1) term = term * z;
            value = value + term;
            float next = x * re - y * im;
            im = x * im + y * re;
            re = next;
        }
    }
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

// The FOD at a unit vector, convolved about it; see tables/cone_mass.py.
template <class AnyFod>
DEVICE float convolved_at(const AnyFod& c, const float* numbers, float x, float y, float z)
{
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
        float p0 = c[at++], p1 = 0.0f, p2 = 0.0f;  // value, first and half the second derivative
#pragma unroll
        for (int k = 0; k < largest / 2; k++) {
            p2 = p2 * v + p1;
            p1 = p1 * v + p0;
            p0 = p0 * v + c[at++];
        }
        if (largest == LMAX) {
            d.value = p0;
            d.gz = 2.0f * z * p1;
            d.hzz = 2.0f * p1 + 4.0f * w * (p2 + p2);
        } else {  // with the factor z
            d.value = d.value + p0 * z;
            d.gz = d.gz + (p0 + 2.0f * w * p1);
            d.hzz = d.hzz + (6.0f * z * p1 + 4.0f * w * z * (p2 + p2));
        }
        float re = x, im = y;            // of (x + i y)^m
        float re_1 = 1.0f, im_1 = 0.0f;  // of the power m - 1
        float re_2 = 0.0f, im_2 = 0.0f;  // of the power m - 2
#pragma unroll
        for (int m = 1; m <= largest; m++) {
            v = w - shift_of(m);
            float q0 = c[at + 1], q1 = 0.0f, q2 = 0.0f;
            p0 = c[at];
            p1 = p2 = 0.0f;
            at += 2;
#pragma unroll
            for (int k = 0; k < (largest - m) / 2; k++) {
                p2 = p2 * v + p1;
                p1 = p1 * v + p0;
                p0 = p0 * v + c[at];
                q2 = q2 * v + q1;
                q1 = q1 * v + q0;
                q0 = q0 * v + c[at + 1];
                at += 2;
            }
            // From polynomials in v to functions of z, with the factor z where there is one.
            if ((largest - m) & 1) {
                float slope = 2.0f * w, bend = 4.0f * w * z;
                p2 = 6.0f * z * p1 + bend * (p2 + p2);
                q2 = 6.0f * z * q1 + bend * (q2 + q2);
                p1 = p0 + slope * p1;
                q1 = q0 + slope * q1;
                p0 = p0 * z;
                q0 = q0 * z;
            } else {
                float slope = 2.0f * z, bend = 4.0f * w;
                p2 = 2.0f * p1 + bend * (p2 + p2);
                q2 = 2.0f * q1 + bend * (q2 + q2);
                p1 = slope * p1;
                q1 = slope * q1;
            }
            float order = (float)m, pairs = (float)(m * (m - 1));
            d.value = d.value + (p0 * re + q0 * im);
            d.gz = d.gz + (p1 * re + q1 * im);
            d.hzz = d.hzz + (p2 * re + q2 * im);
            // Of the powers 0 and -1, which are 1 and 0, no multiples are taken.
            d.gx = d.gx + (m > 1 ? order * (p0 * re_1 + q0 * im_1) : p0);
            d.gy = d.gy + (m > 1 ? order * (q0 * re_1 - p0 * im_1) : q0);
            d.hxz = d.hxz + (m > 1 ? order * (p1 * re_1 + q1 * im_1) : p1);
            d.hyz = d.hyz + (m > 1 ? order * (q1 * re_1 - p1 * im_1) : q1);
            if (m > 1) {
                d.hxx = d.hxx + pairs * (m > 2 ? p0 * re_2 + q0 * im_2 : p0);
                d.hxy = d.hxy + pairs * (m > 2 ? q0 * re_2 - p0 * im_2 : q0);
            }
            re_2 = re_1;
            im_2 = im_1;
            re_1 = re;
            im_1 = im;
            re = x * re_1 - y * im_1;
            im = x * im_1 + y * re_1;
        }
    }
    return d;
}
