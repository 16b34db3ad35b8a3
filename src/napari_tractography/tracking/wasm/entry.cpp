// The CUDA kernel for WebAssembly, a warp of one lane: called by wasm_backend.py, and in a browser by
// page.js.
//
// No library: what of CUDA and C it takes is here. Fused multiply-add there is none, hence the same
// bits as on CPU and GPU. scripts/wasm.py compiles it, once for each largest degree of the FOD, and
// for vectors.

#define INFINITY __builtin_inff()

// Instructions of WebAssembly.
static inline float sqrtf(float x) { return __builtin_sqrtf(x); }
static inline float fabsf(float x) { return __builtin_fabsf(x); }
static inline float floorf(float x) { return __builtin_floorf(x); }
static inline float ceilf(float x) { return __builtin_ceilf(x); }
static inline float fminf(float x, float y) { return x != x || y < x ? y : x; }
static inline float fmaxf(float x, float y) { return x != x || y > x ? y : x; }

#define __global__
#define __grid_constant__
#define __device__
#define __constant__
#define __shared__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define N_LANES 1

struct __attribute__((may_alias)) uint4 {
    unsigned int x, y, z, w;
};
struct __attribute__((may_alias)) float4 {
    float x, y, z, w;
};

static struct {
    unsigned int x;
} blockIdx, blockDim, gridDim, threadIdx;
static float4 commons[1 << 10];

static float __uint_as_float(unsigned int bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

// Of a normal number that is not negative.
static float frexpf(float value, int* exponent)
{
    unsigned int bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    *exponent = (int)(bits >> 23) - 126;
    return __uint_as_float((bits & 0x007FFFFFu) | 0x3F000000u);
}

// Exact: a half float's digits, scaled by 2^112. Tables hold no infinite numbers.
static float from_half(unsigned short bits)
{
    unsigned int wide = (unsigned int)(bits & 0x7FFFu) << 13;
    float found = __uint_as_float(wide) * 5.192296858534828e33f;
    return bits & 0x8000u ? -found : found;
}

// Eight of them, four side by side, the same way.
static __attribute__((noinline)) void from_eight_halves(const unsigned short* halves, float* values)
{
    typedef unsigned short Halves __attribute__((vector_size(8)));
    typedef unsigned int Words __attribute__((vector_size(16)));
    typedef float Floats __attribute__((vector_size(16)));
    for (int first = 0; first < 8; first += 4) {
        Halves read;
        __builtin_memcpy(&read, halves + first, sizeof(read));
        Words words = __builtin_convertvector(read, Words);
        Floats sizes = (Floats)((words & 0x7FFFu) << 13) * 5.192296858534828e33f;
        words = (Words)sizes | (words & 0x8000u) << 16;
        __builtin_memcpy(values + first, &words, sizeof(words));
    }
}
#define READ_EIGHT from_eight_halves

// Rounds to nearest, ties to even.
static unsigned short to_half(float value)
{
    unsigned int bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    unsigned int sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return (unsigned short)(sign | 0x7E00u);   // no number
    if (size >= 0x477FF000u) return (unsigned short)(sign | 0x7C00u);  // 65520 and more
    if (size < 0x38800000u) {  // below the normal ones: the sum is rounded to multiples of 2^-24
        float sum = fabsf(value) + 0.5f;
        __builtin_memcpy(&bits, &sum, sizeof(bits));
        return (unsigned short)(sign | (bits - 0x3F000000u));
    }
    size += 0xFFFu + (size >> 13 & 1u) - 0x38000000u;
    return (unsigned short)(sign | size >> 13);
}

template <class T> static T atomicAdd(T* place, T more)
{
    T before = *place;
    *place += more;
    return before;
}

static int atomicMin(int* place, int value)
{
    int before = *place;
    *place = value < before ? value : before;
    return before;
}

static int __popc(unsigned int word) { return __builtin_popcount(word); }
static int __ffs(int word) { return __builtin_ffs(word); }
static unsigned int __ballot_sync(unsigned int, bool truth) { return truth ? 1 : 0; }
template <class T> static T __shfl_sync(unsigned int, T value, int) { return value; }
static void __syncwarp() {}

#ifdef VECTORS
#include "track.cu"
#else

// Rows of the table are filled when one is first read, from coefficients that the host brings, many
// rows at once. In a page all rows come filled, and nothing is brought.
static unsigned char *filled = 0, *brought = 0;
enum { BROUGHT_AT_ONCE = 1024 };

struct Field;
struct Interpolant;
struct Rows;
static void ensure_row(int row);
static void ensure_crossing(const Field& field, const Interpolant& interpolant);
static void ensure_ways(int row, int ix, int iy, int iz);
static const float* values_of(const Rows& rows, long long row);

#define ENSURE_ROW(row) ensure_row(row)
#define ENSURE_CROSSING(field, interpolant) ensure_crossing(field, interpolant)
#define ENSURE_WAYS(rows, row, ix, iy, iz) ensure_ways((int)(row), ix, iy, iz)
#define VALUES_OF(rows, row) values_of(rows, row)
#include "track.cu"
#include "tables.cu"

static Rows rows;

extern "C" __attribute__((import_module("env"), import_name("bring"))) void bring(int first, int last);

static const float* values_of(const Rows& rows, long long row)
{
    int part = (int)row / BROUGHT_AT_ONCE, first = part * BROUGHT_AT_ONCE;
    if (!brought[part]) {
        int last = first + BROUGHT_AT_ONCE;
        bring(first, last < rows.n_rows ? last : (int)rows.n_rows);
        brought[part] = 1;
    }
    return rows.values + row * N_COEFFICIENTS;
}

static __attribute__((noinline)) void fill(int row)
{
    unsigned int block = blockIdx.x, thread = threadIdx.x, size = blockDim.x;
    blockIdx.x = row;
    blockDim.x = 1;
    threadIdx.x = 0;
    fill_rows(rows);
    blockIdx.x = block;
    blockDim.x = size;
    threadIdx.x = thread;
    filled[row] = 1;
}

static void ensure_row(int row)
{
    if (filled && !filled[row]) fill(row);
}

static void ensure_ways(int row, int ix, int iy, int iz)
{
    ensure_row(row);
    if (rows.crossings[row] >= NOT_SEEN)
        rows.crossings[row] = ways_cross(&rows, row, ix, iy, iz);
}

static __attribute__((noinline)) void see(int row, int ix, int iy, int iz)
{
    unsigned int around = crossings_around(rows, ix, iy, iz);
    unsigned int own = is_looked_at(ix, iy, iz) ? rows.crossings[row] & OWN_BITS : 0;
    rows.crossings[row] = around | own;
}

// In a page all of them are known, too.
static void ensure_crossing(const Field& field, const Interpolant& interpolant)
{
    int row = interpolant.row, seen = (int)field.crossings[row];
    if (!filled || (seen >= NOT_AMONG && seen < NOT_SEEN)) return;
    int k = 0;
    while (interpolant.rows[k] != row) k++;
    see(row, interpolant.cell[0] + (k >> 2), interpolant.cell[1] + ((k >> 1) & 1),
        interpolant.cell[2] + (k & 1));
}

// Rows are to be filled as they are read: n_rows + 1 bytes, of which the last is 1, and a byte for
// as many rows as are brought at once.
extern "C" __attribute__((export_name("fill_from"))) void fill_from(const Rows* table,
                                                                    unsigned char* is_filled,
                                                                    unsigned char* is_brought)
{
    rows = *table;
    filled = is_filled;
    brought = is_brought;
}

// Fill all rows, and find which voxels are among crossings.
extern "C" __attribute__((export_name("fill_all"))) void fill_all()
{
    blockDim.x = 1;
    threadIdx.x = 0;
    for (int row = 0; row < rows.n_rows; row++) ensure_row(row);
    for (int voxel = 0; voxel < rows.nx * rows.ny * rows.nz; voxel++) {
        int ix, iy, iz;
        blockIdx.x = voxel;
        int row = (int)row_of_thread(rows, ix, iy, iz);
        if (row >= 0) see(row, ix, iy, iz);
    }
}
#endif

// Track a batch, and put its streamlines in order.
extern "C" __attribute__((export_name("track"))) void track(const Field* field,
                                                            const Settings* settings,
                                                            const Regions* regions,
                                                            const Batch* batch)
{
    blockDim.x = gridDim.x = 1;
    blockIdx.x = threadIdx.x = 0;
    track_streamlines(*field, *settings, *regions, *batch);
    blockDim.x = (batch->n_seeds + TILE - 1) / TILE;
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) add_tiles(*batch);
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) scan_tiles(*batch);
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) place_streamlines(*batch);
    blockDim.x = settings->endpoints ? batch->n_seeds : 1;
    threadIdx.x = 0;
    if (!settings->endpoints) return gather_points(*settings, *batch);
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) write_endpoints(*batch);
}
