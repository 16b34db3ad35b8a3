// The FOD in rings around a direction. Twin of cpu/sphere/rings.py, where the method and the order of
// the harmonics are explained.
//
// All loops are unrolled: harmonics are in registers, and what they are multiplied by is in the code.
#pragma once

#include "tangents.h"
#include "turning.h"

#define N_HEIGHTS ((LMAX / 2 + 1) * (LMAX / 2 + 1))

// The FOD on a ring around the z axis, from order to order.
struct Ring {
    float cosines[LMAX + 1], sines[LMAX + 1];
};

// The FOD at a direction of a ring and at its mirror images: (x, y), (x, -y), (-x, y), (-x, -y).
struct Four {
    float values[4];
};

// The first harmonic of a degree.
DEVICE int first_of(int degree)
{
    return degree * (degree - 1) / 2;
}

// The index of the cosine of order m among the harmonics of a degree, and that of the sine.
DEVICE int cosine_at(int degree, int m)
{
    return (m & 1 ? degree + 1 : 0) + m / 2;
}

DEVICE int sine_at(int degree, int m)
{
    return degree / 2 + (m & 1 ? 1 : degree) + m / 2;
}

// A harmonic of order m, `row` degrees of two below LMAX.
DEVICE float cosine_in(const Fod& fod, int row, int m)
{
    int degree = LMAX - 2 * row;
    return fod[first_of(degree) + cosine_at(degree, m)];
}

DEVICE float sine_in(const Fod& fod, int row, int m)
{
    int degree = LMAX - 2 * row;
    return fod[first_of(degree) + sine_at(degree, m)];
}

// Write the harmonics of an FOD in axes that are turned about z: the new x axis is at
// (turn_x, turn_y, 0). Return how many numbers that took.
template <class AnyFod>
DEVICE int to_harmonics(const AnyFod& fod, float turn_x, float turn_y, Fod& target)
{
    int number = 0, at = 0;
    float re = turn_x, im = turn_y;  // of (turn_x + i turn_y)^m
#pragma unroll
    for (int m = 0; m <= LMAX; m++) {
        float cosines[LMAX / 2 + 1], sines[LMAX / 2 + 1];
#pragma unroll
        for (int row = 0; row <= (LMAX - m) / 2; row++) {
            float first = fod[at++], second = m > 0 ? fod[at++] : 0.0f;
            cosines[row] = m > 0 ? first * re + second * im : first;
            sines[row] = m > 0 ? second * re - first * im : 0.0f;
        }
        if (m > 0) {
            float next = turn_x * re - turn_y * im;
            im = turn_x * im + turn_y * re;
            re = next;
        }
#pragma unroll
        for (int row = 0; row <= (LMAX - m) / 2; row++) {
            float cosine = TURNING[number] * cosines[0], sine = TURNING[number] * sines[0];
#pragma unroll
            for (int j = 1; j <= row; j++) {
                cosine = cosine + TURNING[number + j] * cosines[j];
                sine = sine + TURNING[number + j] * sines[j];
            }
            number += row + 1;
            int degree = LMAX - 2 * row;
            target.set(first_of(degree) + cosine_at(degree, m), cosine);
            if (m > 0) target.set(first_of(degree) + sine_at(degree, m), sine);
        }
    }
    return number;
}

// Write a square matrix of n rows times n harmonics, or its transpose.
DEVICE void times(int number, int n, bool transposed, const float* source, float* target)
{
#pragma unroll
    for (int i = 0; i < n; i++) {
        float total = TURNING[number + (transposed ? i : i * n)] * source[0];
#pragma unroll
        for (int j = 1; j < n; j++)
            total = total + TURNING[number + (transposed ? i + j * n : i * n + j)] * source[j];
        target[i] = total;
    }
}

// The harmonics of degree 2 half at (x, z, y).
DEVICE void exchange(int number, int half, const float* source, float* target)
{
    times(number, half + 1, false, source, target);
    number += (half + 1) * (half + 1);
    times(number, half, false, source + half + 1, target + half + 1);
    number += half * half;
    times(number, half, false, source + 3 * half + 1, target + 2 * half + 1);
    times(number, half, true, source + 2 * half + 1, target + 3 * half + 1);
}

// Turn harmonics until (sine, 0, cosine) is the z axis; `number` is where the numbers for that begin.
DEVICE void tilt(int number, float cosine, float sine, Fod& fod)
{
    float re[LMAX + 1], im[LMAX + 1];  // of (cosine + i sine)^m
    re[1] = cosine;
    im[1] = sine;
#pragma unroll
    for (int m = 2; m <= LMAX; m++) {
        re[m] = cosine * re[m - 1] - sine * im[m - 1];
        im[m] = cosine * im[m - 1] + sine * re[m - 1];
    }
#pragma unroll
    for (int half = 0; half <= LMAX / 2; half++) {
        const int degree = 2 * half, first = first_of(degree);
        float here[2 * LMAX + 1], there[2 * LMAX + 1];
#pragma unroll
        for (int j = 0; j <= 2 * degree; j++) here[j] = fod[first + j];
        exchange(number, half, here, there);
#pragma unroll
        for (int m = 1; m <= degree; m++) {
            float a = there[cosine_at(degree, m)], b = there[sine_at(degree, m)];
            there[cosine_at(degree, m)] = a * re[m] - b * im[m];
            there[sine_at(degree, m)] = a * im[m] + b * re[m];
        }
        exchange(number, half, there, here);
#pragma unroll
        for (int j = 0; j <= 2 * degree; j++) fod.set(first + j, here[j]);
        number += (half + 1) * (half + 1) + 2 * half * half;
    }
}

// The FOD along the z axis, and its derivatives along x and y there, on the sphere.
struct Ahead {
    float value;
    Slopes slopes;
};

DEVICE Ahead along_axis(const Fod& fod)
{
    const int n = LMAX / 2 + 1;
    float cosine = cosine_in(fod, 0, 0);
    float value = AXIS[0] * cosine, down = AXIS[n] * cosine;
    float ga = 0.0f, gb = 0.0f, along = 0.0f, across = 0.0f;
#pragma unroll
    for (int row = 1; row < n; row++) {
        cosine = cosine_in(fod, row, 0);
        value = value + AXIS[row] * cosine;
        down = down + AXIS[n + row] * cosine;
    }
#pragma unroll
    for (int row = 0; row < LMAX / 2; row++) {
        ga = ga + AXIS[2 * n + row] * cosine_in(fod, row, 1);
        gb = gb + AXIS[2 * n + row] * sine_in(fod, row, 1);
        along = along + AXIS[3 * n + row] * cosine_in(fod, row, 2);
        across = across + AXIS[3 * n + row] * sine_in(fod, row, 2);
    }
    Ahead ahead = {value, {ga, gb, along - down, across, 0.0f - along - down}};
    return ahead;
}

// The FOD on the ring of which these are the heights.
DEVICE Ring ring_of(const Fod& fod, const float* heights)
{
    Ring ring;
#pragma unroll
    for (int m = 0; m <= LMAX; m++) {
        float cosine = heights[0] * cosine_in(fod, 0, m);
        float sine = m > 0 ? heights[0] * sine_in(fod, 0, m) : 0.0f;
#pragma unroll
        for (int row = 1; row <= (LMAX - m) / 2; row++) {
            cosine = cosine + heights[row] * cosine_in(fod, row, m);
            if (m > 0) sine = sine + heights[row] * sine_in(fod, row, m);
        }
        heights += (LMAX - m) / 2 + 1;
        ring.cosines[m] = cosine;
        ring.sines[m] = sine;
    }
    return ring;
}

// The FOD at a direction of a ring, of which these are cosines and sines of the azimuth, and at its
// mirror images. Those of two orders are read at once.
DEVICE Four around(const Ring& ring, const float4* azimuths)
{
    float even = ring.cosines[0], odd = 0.0f, side_even = 0.0f, side_odd = 0.0f;
#pragma unroll
    for (int m = 1; m < LMAX; m += 2) {
        float4 two = azimuths[m / 2];
        float cosine = two.x * ring.cosines[m], sine = two.y * ring.sines[m];
        odd = m == 1 ? cosine : odd + cosine;
        side_odd = m == 1 ? sine : side_odd + sine;
        cosine = two.z * ring.cosines[m + 1];
        sine = two.w * ring.sines[m + 1];
        even = even + cosine;
        side_even = m == 1 ? sine : side_even + sine;
    }
    float along = even + odd, against = even - odd;
    float same = side_odd + side_even, other = side_odd - side_even;
    Four four = {{along + same, along - same, against + other, against - other}};
    return four;
}
