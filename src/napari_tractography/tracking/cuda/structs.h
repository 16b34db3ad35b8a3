// What the kernels are called with, and what a thread knows.
//
// Twin of the structures of codes.py. Their layout in memory is read from this file by source.py,
// so that it is said once: one member a line. The constants are generated, as codes.h.
#pragma once

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
// For what is seldom needed: kept out of the loop, whose code then fits the GPU's caches. These
// functions take values and pointers to tables, never a reference, which would push what it refers
// to out of the registers.
#define SELDOM static __device__ __noinline__

// Whether amplitudes are clipped and cones are cones: known when compiling what most kernels run.
#ifndef PLAIN
#define PLAIN 0
#endif

// Whether the FOD ahead counts: where it never does, the kernel has less code.
#ifndef AHEAD
#define AHEAD 1
#endif

// Whether lines keep to their lobe; among vectors there are none.
#ifndef ONE_LOBE
#define ONE_LOBE 1
#endif

// The largest degree of the FOD: known when compiling, so that loops are unrolled and coefficients
// stay in registers.
#ifndef LMAX
#error "LMAX, the largest degree of the FOD, is to be defined"
#endif
// Whether there are odd degrees, too.
#ifndef ASYMMETRIC
#define ASYMMETRIC 0
#endif
#define N_COEFFICIENTS (ASYMMETRIC ? (LMAX + 1) * (LMAX + 1) : (LMAX + 1) * (LMAX + 2) / 2)
#define N_PADDED ((N_COEFFICIENTS / PADDING + 1) * PADDING)

// The FOD, its cones and the mask; see data.py and plan.py.
struct Field {
    const int* voxel_rows;               // (nx, ny, nz)
    const unsigned short* coefficients;  // (n_rows + 1, N_PADDED): half floats, then the bound
    const float* masses;                 // (n_rows + 1,)
    const unsigned int* crossings;       // (n_rows + 1,): see cpu/crossings.py
    const float* sphere_points;          // (3, n_sphere_points): directions of the half sphere,
                                         // of the whole if ASYMMETRIC
    const float* cone_points;            // (3, n_cone_points): directions around the z axis
    const float* quadrature_points;      // (4, n_quadrature_points): see tables/cone_quadrature.py
    const int* quadrature_neighbours;    // (4 n_quadrature_points + 1, N_AROUND)
    const float* quadrature_heights;     // (n_quadrature_points, n_heights)
    const float* quadrature_azimuths;    // (n_quadrature_points, 2 LMAX)
    const float* cone_mass;              // see tables/cone_mass.py; null without a threshold
    const float* quadrature_mass;
    const unsigned char* mask;           // (nx, ny, nz), or null without a mask
    const unsigned char* allowed;        // (n_directions, n_directions), or null: see codes.py
    const float* directions;             // (n_directions, 3)
    const int* neighbours;               // (n_directions, N_NEIGHBOURS)
    const float* vectors;                // (n_rows, n_numbers): peaks or tensors
    int n_numbers;
    int is_tensor;
    int nx;
    int ny;
    int nz;
    int n_rows;
    int n_sphere_points;
    int n_cone_points;
    int n_quadrature_points;
    int n_directions;
    float to_voxel[12];  // (3, 4): RAS+ mm to voxel coordinates
};

// The tracking parameters, as numbers.
struct Settings {
    int algorithm;
    int interpolation;
    int among_vectors;
    int curved;
    int parts;
    int direction;
    int start;
    float step;
    float min_probability;
    float min_amplitude;  // in the unit of the table
    int edge;
    float cone_height;  // 1 minus the cosine of the cone angle
    float cone_cosine;
    float cone_sine;
    float ring_height;  // 1 minus the cosine of RING of the cone angle
    float min_length;
    float max_length;
    int min_steps;
    int max_steps;
    int record_every;
    int endpoints;
    int positivity;
    float sharpness;  // of softplus, for the amplitudes of the table
    float gamma;
    float gamma_noise;
    float look_ahead;  // mm
    float look_in_plane;  // as much of it counts in the plane of crossings
    float lobe_cosine;  // of the angle up to which directions are of any lobe; 0 without lobes
    float lobe_width;   // twice the sine of half that angle
    float cone_width;   // and of half the cone's
    float min_roundness;  // of a lobe along whose wide side lines turn
    float fastest_turn;   // rad per mm: of the top of a wide lobe, along that side
    int adaptive;
    unsigned int key_0;
    unsigned int key_1;
};

// Regions flattened into arrays, and the tissue image; see plan.py.
struct Regions {
    const int* roles;          // (n_regions,)
    const int* shapes;         // (n_regions,)
    const int* orders;         // (n_regions,): number among the include regions
    const float* geometry;     // (n_regions, 12): centre and squared radius, or RAS+ mm to voxel
    const long long* extents;  // (n_regions, 4): shape and first voxel in `voxels`
    const unsigned char* voxels;
    const float* fractions;    // (nx, ny, nz, 5) of tissues, or null without an image
    int n_regions;
    int rule;
    int n_includes;
    int n_ends;
    int nx;
    int ny;
    int nz;
    int backtrack;
    int crop;
    float to_tissue[12];  // (3, 4): RAS+ mm to voxels of the tissue image
};

// A batch of seeds, the outcome of each, and their streamlines.
struct Batch {
    const float* positions;        // (n_seeds, 3): RAS+ mm
    const float* seed_directions;  // (n_seeds, 3): that come with the seeds, or null
    const unsigned int* streams;   // (n_seeds,): streamline ids of random numbers, or null
    unsigned int* next;            // (1,): next seed that no thread has begun
    float* start_directions;       // (n_seeds, 3): of the forward half
    float* direction_log;          // (n_seeds, log_length, 3): directions of steps, where they may
                                   // be taken back
    int* steps;                    // (n_seeds, 2): of the forward and of the backward half
    int* counts;                   // (n_seeds,): points of each seed's streamline, 0 without one
    float* lengths;                // (n_seeds,); of the forward half, until the other is done
    unsigned char* reasons;        // (n_seeds, 2): backward, forward
    float* ends;                   // (n_seeds, 2, 3): last points backward and forward, for ends
                                   // alone and where lines are cropped
    unsigned long long* tally;     // (N_REASONS,)
    long long* offsets;            // (n_seeds,): first point of each seed
    long long* tile_points;        // (n_tiles,): sums of TILE seeds, then their running sum
    long long* tile_lines;         // (n_tiles,)
    long long* totals;             // (3,): points and streamlines of the batch, blocks asked for
    long long* line_offsets;       // (n_seeds + 1,): from here on one entry a streamline
    float* line_lengths;           // (n_seeds,)
    unsigned char* line_reasons;   // (n_seeds, 2)
    long long* line_sources;       // (n_seeds,): streamline id
    float* points;                 // (n_points, 3)
    float* pool;                   // (n_blocks, BLOCK_POINTS, 3): points as they are made
    unsigned int* next_block;      // (1,): blocks that were asked for
    int* block_halves;             // (n_blocks,): 2 seed + half of the points in it, -1 for none
    int* block_numbers;            // (n_blocks,): which block of that half it is
    int* block_before;             // (n_blocks,): the block before it, where steps are taken back
    unsigned int first_stream;     // streamline id of seed 0
    int n_seeds;
    int log_length;
    int n_blocks;
};

// The lanes of a warp, all of which take part in every vote and look.
#ifndef N_LANES
#define N_LANES 32
#endif
#define ALL_LANES 0xFFFFFFFFu

// The FOD of one position, as evaluation.h reads it.
struct Fod {
    enum { AT_ONCE = N_COEFFICIENTS };  // numbers whose index is to be known when compiling
    float coefficients[N_COEFFICIENTS];

    DEVICE_MEMBER float operator[](int k) const
    {
        return coefficients[k];
    }

    DEVICE_MEMBER void set(int k, float value)
    {
        coefficients[k] = value;
    }
};

// The FOD of a lane, in memory that its block of threads has in common: there it takes no registers,
// and other lanes read it. Those of a warp lie side by side, number after number, so that lanes do
// not wait for one another's.
struct SharedFod {
    enum { AT_ONCE = 1 };
    float* numbers;

    DEVICE_MEMBER float operator[](int k) const
    {
        return numbers[k * N_LANES];
    }

    DEVICE_MEMBER void set(int k, float value) const
    {
        numbers[k * N_LANES] = value;
    }
};

// What is known besides the FOD where a streamline is, and the cell of voxels that it is from.
struct Interpolant {
    int cell[3];  // the voxel, or corner 0 of the eight voxels around
    int rows[8];  // of the voxels of the cell; n_rows stands for one without an FOD
    int row;      // of the nearest voxel
    float bound;  // no amplitude is larger
    float mass;   // mean over the sphere of the amplitudes that are not negative
#ifdef VECTORS
    float weights[8];  // of the voxels of the cell
#endif
};

// Which regions a streamline has met.
struct Visits {
    unsigned int visited;  // bits of the include regions
    signed char ups[2][MAX_INCLUDES + 1];  // ordered visits going outwards, a row a half
    signed char downs[2][MAX_INCLUDES + 1];
};

// What a lane does next; see track.cu.
enum Task {
    BEGIN,        // the next seed
    ARRIVE,       // find the FOD at the last point
    CHOOSE,       // the next direction, by another algorithm than that of proposals
    TRY,          // find the FOD at a point of an arc, and try the arc by it
    PROPOSE,      // directions
    CHECK,        // that enough of the FOD is in the cone
    SAMPLE_CONE,  // since proposals were rejected
    FIND_PEAK,    // the largest amplitude of the cone
    WEIGH,        // find how much of the FOD is in the cone
    START,        // the streamline, along the direction that was found
    HALF,         // begin it
    MOVE,         // a step
    END,          // of a half, for a reason
    IDLE          // there are no more seeds
};

// What a thread knows of the tissues that a half runs through; see TissueState of cpu/lanes.py.
struct Tissue {
    int depth;
    float least;
    int least_at;
    float least_x, least_y, least_z;        // the point there
    float arrival_x, arrival_y, arrival_z;  // direction of the step to the last point
    float arrival_value;                    // of the FOD there, along it, where steps are arcs
    float last_x, last_y, last_z;           // the point before it
    float cropped;
    int n_reverts, furthest, n_back, n_from_there;
    unsigned int visited_before;
    int log_left;  // at the beginning of the half
    bool is_in_lesion, is_from_deep, has_reached_white, is_one_way;
};

// One half of a streamline on its way, or, with PURPOSE_START, the search for its first direction.
struct StreamlineState {
    float x, y, z;     // RAS+ mm
    float ux, uy, uz;  // current direction
    float tx, ty, tz;  // the next one, until it is checked
    float height;      // its amplitude
    float hx, hy, hz;  // tangent at the last point, where steps are arcs
    int part;       // how many amplitudes of the arc that is tried are known
    float density;  // their product over the bounds, but for that at the end, and the root of that
    float end;
    bool has_arcs;  // one of the arcs ahead is good
    bool is_full;   // all voxels that a point of an arc may be in hold an FOD
    float step;        // mm
    float length;
    float max_length;
    float bound;  // no amplitude that may be drawn is larger
    int half;
    int steps;
    int max_steps;
    float* log_entry;  // of the next step, over both halves
    int log_left;
    int seed;
    int reason;     // to end
    int until;      // steps until the next point is kept
    int n_kept;     // points of this half
    int block;      // of the pool, that the next one goes to
    unsigned int purpose;  // of the random numbers
    unsigned int n_proposals;  // directions that were proposed for the next step
    Task task;
    bool forced;   // the first step goes along the start direction
    bool arrived;  // the interpolant is that at the last point
    bool settled;  // the last choice kept the direction, and the voxel is the same
    bool weighed;  // enough of the FOD is in the cone
    bool looked;   // ahead, for the next step
    bool mirrored;  // what is proposed next is known: a mirror image
    bool elsewhere;  // the last point is in another voxel than the FOD that is known
    Tissue tissue;
};

DEVICE int lane_of()
{
    return (int)(threadIdx.x % N_LANES);
}

// The lobe that each lane follows, and what of the cone belongs to it.
struct Lobe {
    float axis[3][N_LANES];
    float next[3][N_LANES];   // the axis of the next step
    float along[N_LANES];     // the FOD along the axis
    float strip[4][N_LANES];  // of the cone, see Strip
    float top[3][N_LANES];    // of the lobe a step ago; zeros where that is not known
};

// What the lanes of a warp have in common.
struct Common {
    float numbers[N_COEFFICIENTS * N_LANES];  // of the FOD of each lane
    float climbed[4][3];                      // where climbs led and began
    int askers[N_LANES];                      // lanes for which directions are proposed
    int winners[N_LANES];                     // lanes that found one, by the number of the asker
    Lobe lobe;
};

DEVICE Common& common()
{
    extern __shared__ float4 commons[];  // one a warp; of this type, so that it is aligned
    return ((Common*)commons)[threadIdx.x / N_LANES];
}

DEVICE SharedFod fod_of_lane(int lane)
{
    SharedFod fod = {common().numbers + lane};
    return fod;
}

DEVICE SharedFod own_fod()
{
    return fod_of_lane(lane_of());
}

// Turn into a direction, a unit vector.
DEVICE void face(StreamlineState& state, float ux, float uy, float uz)
{
    state.ux = ux;
    state.uy = uy;
    state.uz = uz;
}

// Let the direction be the axis of the lobe.
DEVICE void begin_lobe(const StreamlineState& state)
{
    Lobe& lobe = common().lobe;
    int lane = lane_of();
    lobe.next[0][lane] = state.ux;
    lobe.next[1][lane] = state.uy;
    lobe.next[2][lane] = state.uz;
    lobe.top[0][lane] = 0.0f;
    lobe.top[1][lane] = 0.0f;
    lobe.top[2][lane] = 0.0f;
}

// Let a seed have no streamline.
DEVICE void refuse(StreamlineState& state, int reason)
{
    state.reason = reason;
    state.task = END;
}

// End a half, or the search for a start.
DEVICE void end(StreamlineState& state, int reason)
{
    refuse(state, state.purpose == PURPOSE_START ? SEED_WITHOUT_FOD : reason);
}
