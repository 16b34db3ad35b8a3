// The main eigenvector of a tensor, by Jacobi's method. Twin of cpu/vectors/eigenvectors.py.
#pragma once

struct Rotation {
    float tangent, cosine, sine;
};

// The rotation that makes an element zero.
DEVICE Rotation rotation_of(float app, float aqq, float apq)
{
    Rotation rotation = {0.0f, 1.0f, 0.0f};
    if (apq == 0.0f) return rotation;
    float tau = (aqq - app) / (2.0f * apq);
    float root = sqrtf(1.0f + tau * tau);
    rotation.tangent = tau >= 0.0f ? 1.0f / (tau + root) : 1.0f / (tau - root);
    rotation.cosine = 1.0f / sqrtf(1.0f + rotation.tangent * rotation.tangent);
    rotation.sine = rotation.tangent * rotation.cosine;
    return rotation;
}

// Turn two numbers by an angle.
DEVICE void turn(const Rotation& rotation, float& p, float& q)
{
    float first = rotation.cosine * p - rotation.sine * q;
    q = rotation.sine * p + rotation.cosine * q;
    p = first;
}

// The eigenvector of the largest eigenvalue, a unit vector.
DEVICE void main_eigenvector(float xx, float yy, float zz, float xy, float xz, float yz,
                             float* vector)
{
    float ax = 1.0f, ay = 0.0f, az = 0.0f;
    float bx = 0.0f, by = 1.0f, bz = 0.0f;
    float cx = 0.0f, cy = 0.0f, cz = 1.0f;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        Rotation rotation = rotation_of(xx, yy, xy);
        xx = xx - rotation.tangent * xy;
        yy = yy + rotation.tangent * xy;
        xy = 0.0f;
        turn(rotation, xz, yz);
        turn(rotation, ax, bx);
        turn(rotation, ay, by);
        turn(rotation, az, bz);
        rotation = rotation_of(xx, zz, xz);
        xx = xx - rotation.tangent * xz;
        zz = zz + rotation.tangent * xz;
        xz = 0.0f;
        turn(rotation, xy, yz);
        turn(rotation, ax, cx);
        turn(rotation, ay, cy);
        turn(rotation, az, cz);
        rotation = rotation_of(yy, zz, yz);
        yy = yy - rotation.tangent * yz;
        zz = zz + rotation.tangent * yz;
        yz = 0.0f;
        turn(rotation, xy, xz);
        turn(rotation, bx, cx);
        turn(rotation, by, cy);
        turn(rotation, bz, cz);
    }
    if (yy > xx && yy >= zz) {
        ax = bx;
        ay = by;
        az = bz;
    } else if (zz > xx) {
        ax = cx;
        ay = cy;
        az = cz;
    }
    float size = sqrtf(ax * ax + ay * ay + az * az);
    vector[0] = ax / size;
    vector[1] = ay / size;
    vector[2] = az / size;
}
