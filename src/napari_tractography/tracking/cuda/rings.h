// The FOD in rings around a direction. Twin of cpu/sphere/rings.py, where the method and the order of
// the harmonics are explained.
//
// Loops are not unrolled, so that all this lies in the thread's own memory: in registers beside the
// coefficients that climbs read it did not fit.
#pragma once

#include "tangents.h"

#define N_HEIGHTS ((LMAX / 2 + 1) * (LMAX / 2 + 1))

// Harmonics, degree after degree.
struct Harmonics {
    float numbers[N_COEFFICIENTS];
};

// The FOD at a direction of a ring and at its mirror images: (x, y), (x, -y), (-x, y), (-x, -y).
struct Four {
    float values[4];
};

// The index of the cosine of order m among the harmonics of a degree, and that of the sine.
DEVICE int cosine_at(int degree, int m)
{
    int at = degree * (degree - 1) / 2;
    return m & 1 ? at + degree + 1 + m / 2 : at + m / 2;
}

DEVICE int sine_at(int degree, int m)
{
    int at = degree * (degree - 1) / 2;
    return m & 1 ? at + degree / 2 + 1 + m / 2 : at + degree + degree / 2 + m / 2;
}

// The harmonics of an FOD; `turning` is moved on by as many numbers as that takes.
DEVICE Harmonics harmonics_of(const Fod& fod, const float*& turning)
{
    const float* c = fod.coefficients;
    Harmonics found;
#pragma unroll 1
    for (int m = 0; m <= LMAX; m++) {
        const int n = (LMAX - m) / 2 + 1, apart = m > 0 ? 2 : 1;
#pragma unroll 1
        for (int row = 0; row < n; row++) {
            float cosine = turning[0] * c[0];
            float sine = m > 0 ? turning[0] * c[1] : 0.0f;
#pragma unroll 1
            for (int j = 1; j <= row; j++) {
                cosine = cosine + turning[j] * c[j * apart];
                if (m > 0) sine = sine + turning[j] * c[j * apart + 1];
            }
            turning += row + 1;
            found.numbers[cosine_at(LMAX - 2 * row, m)] = cosine;
            if (m > 0) found.numbers[sine_at(LMAX - 2 * row, m)] = sine;
        }
        c += n * apart;
    }
    return found;
}

// Write a square matrix times n harmonics, or its transpose.
DEVICE void times(const float* matrix, int n, bool transposed, const float* source, float* target)
{
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        float total = matrix[transposed ? i : i * n] * source[0];
#pragma unroll 1
        for (int j = 1; j < n; j++)
            total = total + matrix[transposed ? i + j * n : i * n + j] * source[j];
        target[i] = total;
    }
}

// The harmonics of (x, z, y).
DEVICE Harmonics exchanged(const Harmonics& harmonics, const float* turning)
{
    Harmonics found;
#pragma unroll 1
    for (int half = 0; half <= LMAX / 2; half++) {
        const float* source = harmonics.numbers + half * (2 * half - 1);
        float* target = found.numbers + half * (2 * half - 1);
        times(turning, half + 1, false, source, target);
        turning += (half + 1) * (half + 1);
        times(turning, half, false, source + half + 1, target + half + 1);
        turning += half * half;
        source += 2 * half + 1;
        target += 2 * half + 1;
        times(turning, half, false, source + half, target);
        times(turning, half, true, source, target + half);
        turning += half * half;
    }
    return found;
}

// The FOD in axes of which (sine, 0, cosine) is the z axis.
DEVICE Harmonics tilted(const Fod& fod, const float* turning, float cosine, float sine)
{
    Harmonics turned = harmonics_of(fod, turning);
    turned = exchanged(turned, turning);
    float re = cosine, im = sine;  // of (cosine + i sine)^m
#pragma unroll 1
    for (int m = 1; m <= LMAX; m++) {
#pragma unroll 1
        for (int row = 0; row <= (LMAX - m) / 2; row++) {
            float& a = turned.numbers[cosine_at(LMAX - 2 * row, m)];
            float& b = turned.numbers[sine_at(LMAX - 2 * row, m)];
            float first = a, second = b;
            a = first * re - second * im;
            b = first * im + second * re;
        }
        float next = cosine * re - sine * im;
        im = cosine * im + sine * re;
        re = next;
    }
    return exchanged(turned, turning);
}

// The FOD along the z axis, and its derivatives along x and y there, on the sphere.
struct Ahead {
    float value;
    Slopes slopes;
};

DEVICE Ahead along_axis(const Harmonics& fod, const float* axis)
{
    const int n = LMAX / 2 + 1;
    float cosine = fod.numbers[cosine_at(LMAX, 0)];
    float value = axis[0] * cosine, down = axis[n] * cosine;
    float ga = 0.0f, gb = 0.0f, along = 0.0f, across = 0.0f;
#pragma unroll 1
    for (int row = 1; row < n; row++) {
        cosine = fod.numbers[cosine_at(LMAX - 2 * row, 0)];
        value = value + axis[row] * cosine;
        down = down + axis[n + row] * cosine;
    }
#pragma unroll 1
    for (int row = 0; row < LMAX / 2; row++) {
        int degree = LMAX - 2 * row;
        ga = ga + axis[2 * n + row] * fod.numbers[cosine_at(degree, 1)];
        gb = gb + axis[2 * n + row] * fod.numbers[sine_at(degree, 1)];
        along = along + axis[3 * n + row] * fod.numbers[cosine_at(degree, 2)];
        across = across + axis[3 * n + row] * fod.numbers[sine_at(degree, 2)];
    }
    Ahead ahead = {value, {ga, gb, along - down, across, 0.0f - along - down}};
    return ahead;
}

// The FOD at a direction of which these are the heights and azimuths, and at its mirror images.
DEVICE Four four_values(const Harmonics& fod, const float* heights, const float* azimuths)
{
    float even = 0.0f, odd = 0.0f, side_even = 0.0f, side_odd = 0.0f;
#pragma unroll 1
    for (int m = 0; m <= LMAX; m++) {
        float cosine = heights[0] * fod.numbers[cosine_at(LMAX, m)];
        float sine = m > 0 ? heights[0] * fod.numbers[sine_at(LMAX, m)] : 0.0f;
#pragma unroll 1
        for (int row = 1; row <= (LMAX - m) / 2; row++) {
            cosine = cosine + heights[row] * fod.numbers[cosine_at(LMAX - 2 * row, m)];
            if (m > 0) sine = sine + heights[row] * fod.numbers[sine_at(LMAX - 2 * row, m)];
        }
        heights += (LMAX - m) / 2 + 1;
        if (m > 0) {
            cosine = azimuths[2 * m - 2] * cosine;
            sine = azimuths[2 * m - 1] * sine;
        }
        if (m == 0)
            even = cosine;
        else if (m & 1) {
            odd = m == 1 ? cosine : odd + cosine;
            side_odd = m == 1 ? sine : side_odd + sine;
        } else {
            even = even + cosine;
            side_even = m == 2 ? sine : side_even + sine;
        }
    }
    float along = even + odd, against = even - odd;
    float same = side_odd + side_even, other = side_odd - side_even;
    Four four = {{along + same, along - same, against + other, against - other}};
    return four;
}
