// Philox4x32-10; see philox.py for the specification.
#pragma once

struct Words {
    unsigned int r0, r1, r2, r3;
};

// A number between 0 and 1 by the high 20 bits of a random word, in the middle of its 2^-20, less an
// offset of 0 or 1/2. These bits are the digits of a number between 1 and 2, and three more.
DEVICE float middle_of(unsigned int word, float offset)
{
    return __uint_as_float(0x3F800007u | (word >> 9)) - (1.0f + 3.0f / (1 << 23) + offset);
}

// Four random numbers of a counter and a key.
DEVICE Words philox_block(unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3,
                          unsigned int k0, unsigned int k1)
{
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        unsigned long long p0 = (unsigned long long)MULTIPLIER_0 * c0;
        unsigned long long p1 = (unsigned long long)MULTIPLIER_1 * c2;
        c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
        c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
        c1 = (unsigned int)p1;
        c3 = (unsigned int)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    Words words = {c0, c1, c2, c3};
    return words;
}
