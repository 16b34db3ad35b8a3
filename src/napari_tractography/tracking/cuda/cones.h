// What a streamline may do next besides the cone angle: cones that are functions, and positivity.
//
// Twin of cpu/sphere/cones.py.
#pragma once

// Directions that are sampled around the current one, u; with a cone that is a function, which of
// them may follow.
struct Cone {
    const float* points;  // (3, n_points), around the z axis
    int n_points;
    float ux, uy, uz;
    const unsigned char* allowed;  // (n_directions, n_directions), or null
    const float* directions;       // (n_directions, 3)
    const int* neighbours;         // (n_directions, N_NEIGHBOURS)
    int n_directions;
};

// Which direction may follow which, where the cone is a function.
DEVICE const unsigned char* allowed_of(const Field& field)
{
    return PLAIN ? 0 : field.allowed;
}

// The direction of the set nearest to a unit vector: uphill in cosine.
SELDOM int nearest_index(const float* directions, const int* neighbours, float x, float y, float z)
{
    int i = 0;
    float best = directions[0] * x + directions[1] * y + directions[2] * z;
    for (;;) {
        int start = i;
        for (int k = 0; k < N_NEIGHBOURS; k++) {
            int j = neighbours[start * N_NEIGHBOURS + k];
            const float* unit = directions + 3 * j;
            float cosine = unit[0] * x + unit[1] * y + unit[2] * z;
            if (cosine > best) {
                best = cosine;
                i = j;
            }
        }
        if (i == start) return i;
    }
}

// The number of the current direction, for `may_follow`.
DEVICE int index_of(const Cone& cone)
{
    if (!cone.allowed) return 0;
    return nearest_index(cone.directions, cone.neighbours, cone.ux, cone.uy, cone.uz);
}

// Tell whether a direction may follow direction i of the set.
DEVICE bool may_follow(const Cone& cone, int i, float x, float y, float z)
{
    if (!cone.allowed) return true;
    int j = nearest_index(cone.directions, cone.neighbours, x, y, z);
    return cone.allowed[(long long)i * cone.n_directions + j] != 0;
}

// exp(-size), of sizes that are not negative and count up to LIMIT, by multiplication and addition
// alone.
DEVICE float falling(float size)
{
    float t = SIXTEENTH * (size < LIMIT ? size : LIMIT);
    float power = EXP_0;
    power = power * t + EXP_1;
    power = power * t + EXP_2;
    power = power * t + EXP_3;
    power = power * t + EXP_4;
    power = power * t + EXP_5;
    power = power * t + EXP_6;
#pragma unroll
    for (int k = 0; k < 4; k++) power = power * power;  // to the 16th
    return power;
}

// log(1 + t), for t from 0 to 1, in the same way.
DEVICE float log_of_one_and(float t)
{
    float log = LOG_0;
    log = log * t + LOG_1;
    log = log * t + LOG_2;
    log = log * t + LOG_3;
    log = log * t + LOG_4;
    log = log * t + LOG_5;
    log = log * t + LOG_6;
    log = log * t + LOG_7;
    log = log * t + LOG_8;
    return t * log;
}

// log(1 + exp(sharpness * amplitude)) / sharpness.
DEVICE float softplus(float sharpness, float amplitude)
{
    float scaled = sharpness * amplitude;
    float log = log_of_one_and(falling(scaled >= 0.0f ? scaled : 0.0f - scaled));
    return ((scaled >= 0.0f ? scaled : 0.0f) + log) / sharpness;
}

// The amplitude that counts; with clipping, a negative one stays. A sharpness of 0 clips.
DEVICE float positive(float sharpness, float amplitude)
{
    return sharpness > 0.0f ? softplus(sharpness, amplitude) : amplitude;
}

// The sharpness of softplus, or 0 with clipping.
DEVICE float sharpness_of(const Settings& settings)
{
    return settings.positivity == SOFTPLUS ? settings.sharpness : 0.0f;
}
