// Half floats, which the table of the FOD consists of; the host has functions of its own.
#pragma once

#ifdef __CUDA_ARCH__

DEVICE float from_half(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Rounds to nearest, ties to even.
DEVICE unsigned short to_half(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#endif
