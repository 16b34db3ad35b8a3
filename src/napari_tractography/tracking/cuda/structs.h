// What the kernels are called with, and what a thread knows.
//
// Twin of the structures of codes.py. Their layout in memory is read from this file by source.py,
// so that it is said in one place: one member a line. The constants are generated, as codes.h.
#pragma once

#define DEVICE static __device__ __forceinline__
// For what is seldom needed: kept out of the loop, whose code then fits the GPU's caches. These
// functions take values and pointers to tables, never a reference, which would push what it refers
// to out of the registers.
#define SELDOM static __device__ __noinline__

// The FOD, its cones and the mask; see tables.py.
struct Field {
    const int* voxel_rows;                  // (nx, ny, nz)
    const unsigned short* quantised;        // (n_rows, n_patches, PATCH_SIZE)
    const unsigned int* alias;              // (n_rows, n_patches)
    const unsigned short* slot_alias;       // (n_rows, n_patches, PATCH_SIZE)
    const unsigned short* mass_fractions;   // (n_rows, n_patches)
    const unsigned short* patch_maxima;     // (n_rows, n_groups, PATCH_SIZE)
    const float* quanta;                    // (n_rows,)
    const float* totals;                    // (n_rows,)
    const float* directions;                // (n_directions, 3)
    const unsigned int* cone;               // (n_directions + 1, n_patches); the last: all
    const int* contained_patches;           // (n_directions + 1,): a patch in the cone, or -1
    const unsigned char* mask;              // (nx, ny, nz), or null without a mask
    const int* neighbours;                  // (n_directions, N_NEIGHBOURS)
    const float* slopes;                    // (n_directions, N_NEIGHBOURS, 5)
    const float* tangents;                  // (n_directions, 2, 3)
    const float* harmonics;                 // (n_rows, n_coefficients), or null
    int nx;
    int ny;
    int nz;
    int n_half;
    int n_patches;
    int n_groups;
    int n_coefficients;
    int two_sided;
    int max_proposals;   // MAX_PROPOSALS or 0
    int lmax;
    float to_voxel[12];  // (3, 4): RAS+ mm to voxel coordinates
    float to_frame[9];   // (3, 3): RAS+ axes to those of the harmonics
};

// The tracking parameters, as numbers.
struct Settings {
    int algorithm;
    int interpolation;
    int direction;
    int start;
    float step;
    float min_probability;
    float min_amplitude;
    float max_angle;  // radians
    float min_length;
    float max_length;
    int min_steps;
    int max_steps;
    int record_every;
    int endpoints;
    int evaluation;
    int positivity;
    float gamma;
    float gamma_noise;
    int adaptive;
    unsigned int key_0;
    unsigned int key_1;
};

// Regions flattened into arrays; see plan.py.
struct Regions {
    const int* roles;             // (n,)
    const int* shapes;            // (n,)
    const int* orders;            // (n,): number among the include regions
    const float* geometry;        // (n, 12): centre and squared radius, or RAS+ mm to voxel
    const long long* extents;     // (n, 4): shape and first voxel in `voxels`
    const unsigned char* voxels;
    int n;
    int rule;
    int n_includes;
    int n_ends;
};

// A batch of seeds, the outcome of each, and their streamlines.
struct Batch {
    const float* positions;         // (n, 3): RAS+ mm
    const int* given;               // (n,): start directions, read when they are given
    unsigned int* next;             // (1,): next seed that no thread has begun
    int* starts;                    // (n,): first directions
    unsigned short* direction_log;  // (n, log_length): directions of the first steps
    int* steps;                     // (n, 2): of the forward and of the backward half
    int* counts;                    // (n,): points of each seed's streamline, 0 without one
    float* lengths;                 // (n,)
    unsigned char* reasons;         // (n, 2): backward, forward
    float* ends;                    // (n, 2, 3): last points backward and forward, for endpoints
    unsigned long long* tally;      // (N_REASONS,)
    long long* offsets;             // (n,): first point of each seed
    long long* tile_points;         // (n_tiles,): sums of TILE seeds, then their running sum
    long long* tile_lines;          // (n_tiles,)
    long long* totals;              // (2,): points and streamlines of the batch
    long long* line_offsets;        // (n + 1,): from here on one entry a streamline
    float* line_lengths;            // (n,)
    unsigned char* line_reasons;    // (n, 2)
    long long* line_sources;        // (n,): streamline id
    float* points;                  // (n_points, 3)
    unsigned int first_stream;      // streamline id of seed 0
    int n;
    int log_length;
};

// The voxels whose FODs mix at a position, the eight corners in the order of their bits.
struct Corners {
    int rows[8];
    float quanta[8];  // amplitude that a quantised amplitude of 1 adds; 0 where there is no FOD
};

// What a thread knows of the place where its streamline is.
struct Scratch {
    Corners corners;
    float weights[8];  // of the corners, 0 where there is no FOD
    float corner_totals[8];
    float corner_quanta[8];
    float masses[8];  // weights times totals
    int cell[3];  // the voxels the corners belong to
    float total;
    int known_row, known_i, known_j;  // last search: voxel, current direction, largest amplitude
};

// Which regions a streamline has met.
struct Visits {
    unsigned int visited;  // bits of the include regions
    signed char ups[2][MAX_INCLUDES + 1];  // ordered visits going outwards, a row a half
    signed char downs[2][MAX_INCLUDES + 1];
};

// One half of a streamline on its way.
struct Walk {
    float x, y, z;     // RAS+ mm
    float vx, vy, vz;  // the same in voxels
    float ux, uy, uz;  // current direction
    float step;        // mm
    float length;
    float max_length;
    int i;  // the direction of the set that is nearest to the current one
    int half;
    int steps;
    int max_steps;
    unsigned short* log_entry;  // of the next step, over both halves
    int log_left;
    unsigned int n_rejected;  // proposals for the next step, each a block of random numbers
    bool forced;  // the first step goes along direction i
};
