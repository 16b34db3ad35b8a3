// The CUDA kernel for a browser: compiled for WebAssembly, a warp of one lane, called by page.js.
//
// No library: what of CUDA and C it takes is here. Fused multiply-add there is none, hence the same
// bits as on CPU and GPU. scripts/wasm.py compiles it, once for each largest degree of the FOD.

#define INFINITY __builtin_inff()

// Instructions of WebAssembly, and what algorithms take that are not the same everywhere: those are
// not tracked in pages.
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

static unsigned short to_half(float) { __builtin_trap(); }  // tables come filled

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

#include "track.cu"

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
    blockDim.x = 1;
    threadIdx.x = 0;
    gather_points(*settings, *batch);
}
