// Enough of CUDA for g++ to compile the kernels for the host, a thread after the other.

#include <math.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))

struct Index {
    unsigned int x;
};
static thread_local Index blockIdx, blockDim, threadIdx;

// Functions that every machine has its own of, off by two in the last place, as a GPU's may be.
#ifdef OFF_BY_TWO
static float off(float value)
{
    return nextafterf(nextafterf(value, 9.0f), 9.0f);
}
#define sinf(x) off(sinf(x))
#define cosf(x) off(cosf(x))
#define expf(x) off(expf(x))
#define logf(x) off(logf(x))
#define log1pf(x) off(log1pf(x))
#endif

template <class T> static T atomicAdd(T* place, T more)
{
    T before = *place;
    *place += more;
    return before;
}
