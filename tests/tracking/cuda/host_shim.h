// Enough of CUDA for g++ to compile the kernels for the host, a thread after the other.

#include <math.h>
#include <string.h>

#define __global__
#define __grid_constant__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))

struct __attribute__((may_alias)) uint4 {
    unsigned int x, y, z, w;
};
struct __attribute__((may_alias)) float4 {
    float x, y, z, w;
};

// Half floats, by whole numbers: g++ has no type of its own for them.
static float from_half(unsigned short bits)
{
    int exponent = (bits >> 10) & 31, digits = bits & 1023;
    float size = exponent == 31 ? (digits ? NAN : INFINITY)
                 : exponent     ? ldexpf((float)(1024 + digits), exponent - 25)
                                : ldexpf((float)digits, -24);
    return bits & 0x8000u ? -size : size;
}

static unsigned short to_half(float value)
{
    unsigned short sign = signbit(value) ? 0x8000u : 0;
    float size = fabsf(value);
    if (!(size < 65520.0f)) return sign | (size == size ? 0x7C00u : 0x7E00u);
    int exponent = size < 6.103515625e-05f ? -14 : ilogbf(size);
    // The last digit counts 2^(exponent - 10); a carry goes on into the exponent.
    unsigned int digits = (unsigned int)nearbyintf(ldexpf(size, 10 - exponent));
    return (unsigned short)(sign | (((exponent + 14) << 10) + digits));
}

static float __uint_as_float(unsigned int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct Index {
    unsigned int x;
};
static thread_local Index blockIdx, blockDim, gridDim, threadIdx;

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

static int __popc(unsigned int word)
{
    return __builtin_popcount(word);
}

static int __ffs(int word)
{
    return __builtin_ffs(word);
}

// What the lanes of a block have in common.
static thread_local float4 commons[1 << 15];  // threads stand for GPUs
#define __shared__ thread_local

#ifndef WARP

// A warp of one lane.
#define N_LANES 1

static unsigned int __ballot_sync(unsigned int, bool truth)
{
    return truth ? 1 : 0;
}

template <class T> static T __shfl_sync(unsigned int, T value, int)
{
    return value;
}

static void __syncwarp() {}

template <class Kernel> static void run_block(unsigned int block, Kernel kernel)
{
    for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) kernel();
}

#else

// A warp of 32 lanes, each a context of its own; all wait for each other where they vote.
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <vector>

#define N_LANES 32

static std::function<void()> the_kernel;
static ucontext_t scheduler, contexts[N_LANES];
static unsigned int alive, votes, voting, first_lane;
static unsigned int shown[N_LANES], showing[N_LANES];
static unsigned long long n_rounds;

static unsigned int the_lane()
{
    return threadIdx.x - first_lane;
}

static void __syncwarp()
{
    swapcontext(&contexts[the_lane()], &scheduler);
}

static unsigned int __ballot_sync(unsigned int mask, bool truth)
{
    if (truth) voting |= 1u << the_lane();
    __syncwarp();
    return mask & votes;
}

template <class T> static T __shfl_sync(unsigned int, T value, int lane)
{
    memcpy(&showing[the_lane()], &value, sizeof(value));
    __syncwarp();
    memcpy(&value, &shown[lane], sizeof(value));
    return value;
}

// How often a warp goes through a phase, and how many lanes take part.
static unsigned long long warps_in[16], lanes_in[16], last_round[16];

static void note(int phase, bool takes_part)
{
    if (!takes_part) return;
    lanes_in[phase]++;
    if (last_round[phase] != n_rounds) warps_in[phase]++;
    last_round[phase] = n_rounds;
}
#define NOTE(phase, takes_part) note(phase, takes_part)

static void run_lane()
{
    the_kernel();
    alive &= ~(1u << the_lane());
    setcontext(&scheduler);
}

template <class Kernel> static void run_block(unsigned int block, Kernel kernel)
{
    static std::vector<char> stacks[N_LANES];
    the_kernel = kernel;
    for (first_lane = 0; first_lane < block; first_lane += N_LANES) {
        unsigned int n = block - first_lane < N_LANES ? block - first_lane : N_LANES;
        for (unsigned int lane = 0; lane < n; lane++) {
            stacks[lane].resize(1 << 17);
            getcontext(&contexts[lane]);
            contexts[lane].uc_stack.ss_sp = stacks[lane].data();
            contexts[lane].uc_stack.ss_size = stacks[lane].size();
            contexts[lane].uc_link = 0;
            makecontext(&contexts[lane], run_lane, 0);
            alive |= 1u << lane;
        }
        while (alive) {
            n_rounds++;
            voting = 0;
            for (unsigned int lane = 0; lane < n; lane++) {
                if (!((alive >> lane) & 1u)) continue;
                threadIdx.x = first_lane + lane;
                swapcontext(&scheduler, &contexts[lane]);
            }
            votes = voting;
            memcpy(shown, showing, sizeof(shown));
        }
    }
}

#endif
