// What the kernels mass_fraction: codes, constants and the structures that they are called with.
//
// Twin of codes.py: the same names and values. kernels/__init__.py reads the structures from here,
// so that there is one place that says how they lie in memory: one member a line.

#define DEVICE static __device__ __forceinline__
// For what is seldom needed: kept out of the loop, whose code then fits the caches of the card.
// These take values and pointers to tables, never a reference, which would push what it refers to
// out of the registers.
#define SELDOM static __device__ __noinline__

enum {
    MAX_PROPOSALS = 12,       // draws before the cone is scanned; none in a narrow one
    ALIAS_BITS = 8,   // of the number of a patch
    PATCH_SIZE = 16,       // directions of a patch, patches of a group
    SLOT_BITS = 4,    // of the number of a direction in its patch
    THRESHOLD_BITS = 12,  // of a column's mass_fraction in the alias table of a patch
    MASS_UNITS = 65536,   // that the mass of a voxel, of both signs, is cut into
    MAX_INCLUDES = 16,
    N_NEIGHBOURS = 8,
    TILE = 256,  // seeds that one thread adds up
    SEVERAL = 8,  // lanes of a warp that do together what takes long
    AGAIN = -999,  // instead of a direction or a reason: none yet

    PROBABILISTIC = 0,
    DETERMINISTIC = 1,
    DIFFUSION = 2,
    TRANSPORT = 3,
    PRECOMPUTED = 0,
    DIRECT = 1,
    CLIP = 0,
    SOFTPLUS = 1,
    NEAREST = 0,
    TRILINEAR = 1,
    BOTH = 0,
    FORWARD = 1,
    BACKWARD = 2,
    START_SAMPLED = 0,
    START_MAX = 1,
    START_GIVEN = 2,
    ROLE_EXCLUDE = 0,
    ROLE_STOP = 1,
    ROLE_END = 2,
    ROLE_INCLUDE = 3,
    SHAPE_SPHERE = 0,
    SHAPE_MASK = 1,
    RULE_ALL = 0,
    RULE_ANY = 1,
    RULE_ORDERED = 2,

    SEED = 0,
    LEFT_IMAGE = 1,
    LEFT_MASK = 2,
    NO_FOD = 3,
    LOW_AMPLITUDE = 4,
    LOW_PROBABILITY = 5,
    MAX_LENGTH = 6,
    STOP_REGION = 7,
    END_REGION = 8,
    EXCLUDED = 9,
    NOT_INCLUDED = 10,
    NOT_ENDED = 11,
    TOO_SHORT = 12,
    SEED_OUTSIDE_IMAGE = 13,
    SEED_OUTSIDE_MASK = 14,
    SEED_WITHOUT_FOD = 15,

    PURPOSE_FORWARD = 0,
    PURPOSE_BACKWARD = 1,
    PURPOSE_START = 2,
};

// The FOD, its cones and the mask; see tables.py.
struct Field {
    const int* voxel_rows;            // (nx, ny, nz)
    const unsigned short* quantised;     // (n_rows, n_patches, PATCH_SIZE)
    const unsigned int* alias;        // (n_rows, n_patches)
    const unsigned short* slot_alias; // (n_rows, n_patches, PATCH_SIZE)
    const unsigned short* mass_fractions;     // (n_rows, n_patches)
    const unsigned short* patch_maxima;       // (n_rows, n_groups, PATCH_SIZE)
    const float* quanta;              // (n_rows,)
    const float* totals;              // (n_rows,)
    const float* directions;          // (n_directions, 3)
    const unsigned int* cone;         // (n_directions + 1, n_patches); the last: all directions
    const int* contained_patches;                 // (n_directions + 1,): a patch that is all in the cone, or -1
    const unsigned char* mask;        // (nx, ny, nz), or null without a mask
    const int* neighbours;            // (n_directions, N_NEIGHBOURS)
    const float* slopes;              // (n_directions, N_NEIGHBOURS, 5)
    const float* tangents;            // (n_directions, 2, 3)
    const float* harmonics;           // (n_rows, n_coefficients), or null
    int nx;
    int ny;
    int nz;
    int n_half;
    int n_patches;
    int n_groups;
    int n_coefficients;
    int two_sided;
    int max_proposals;                        // MAX_PROPOSALS or 0
    int lmax;
    float to_voxel[12];               // (3, 4): RAS+ mm to voxel coordinates
    float to_frame[9];                // (3, 3): RAS+ axes to those of the harmonics
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

// A batch of seeds, what becomes of each, and the streamlines that come of them.
struct Batch {
    const float* positions;         // (n, 3): RAS+ mm
    const int* given;               // (n,): start directions, read when they are given
    unsigned int* next;             // (1,): next seed that no thread has taken
    int* starts;                    // (n,): first directions
    unsigned short* direction_log;           // (n, log_length): directions of the first steps, for the second pass
    int* steps;                     // (n, 2): of the half ahead and of the half back
    int* counts;                    // (n,): points of each seed's streamline, 0 without one
    float* lengths;                 // (n,)
    unsigned char* reasons;         // (n, 2)
    float* ends;                    // (n, 2, 3): last points back and ahead, for endpoints alone
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
    float quanta[8];  // amplitude that one quantised_value of each row adds; 0 where there is no FOD
};

// What one thread knows of the place it is at.
struct Scratch {
    Corners corners;
    float weights[8];  // of the corners, 0 where there is no FOD
    float corner_totals[8];
    float corner_quanta[8];
    float masses[8];  // weights times totals
    int cell[3];  // the voxels the corners belong to
    float total;
    int known_row, known_i, known_j;  // the largest in a voxel's cone, found last
};

// Which regions a streamline has met.
struct Visits {
    unsigned int visited;  // bits of the include regions
    signed char ups[2][MAX_INCLUDES + 1];  // ordered visits going out, a row a half
    signed char downs[2][MAX_INCLUDES + 1];
};
