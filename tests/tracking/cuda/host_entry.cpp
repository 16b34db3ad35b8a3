// The kernels, compiled for the host and called from Python.

#include "host_shim.h"
#include "track.cu"
#include "tables.cu"

template <class Kernel> static void launch(unsigned int grid, unsigned int block, Kernel kernel)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block(block, kernel);
}

extern "C" void launch_tracking(int second, unsigned int grid, unsigned int block,
                                const Field* field, const Settings* settings,
                                const Regions* regions, const Batch* batch)
{
    if (second)
        launch(grid, block, [=] { write_streamlines(*field, *settings, *regions, *batch); });
    else
        launch(grid, block, [=] { count_streamlines(*field, *settings, *regions, *batch); });
}

extern "C" void launch_between(int which, unsigned int grid, unsigned int block,
                               const Batch* batch)
{
    if (which == 0) launch(grid, block, [=] { add_tiles(*batch); });
    if (which == 1) launch(grid, block, [=] { scan_tiles(*batch); });
    if (which == 2) launch(grid, block, [=] { place_streamlines(*batch); });
    if (which == 3) launch(grid, block, [=] { write_endpoints(*batch); });
}

extern "C" void launch_rows(unsigned int grid, unsigned int block, const Rows* rows)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) fill_rows(*rows);
}

// The largest degree that the kernels are compiled for.
extern "C" int compiled_lmax()
{
#ifdef VECTORS
    return OF_VECTORS;
#else
    return LMAX;
#endif
}

extern "C" void size_of_structures(int* sizes)
{
    sizes[0] = sizeof(Field);
    sizes[1] = sizeof(Settings);
    sizes[2] = sizeof(Regions);
    sizes[3] = sizeof(Batch);
    sizes[4] = sizeof(Rows);
}

extern "C" void halve(const float* values, unsigned short* half_floats, float* read, int n)
{
    for (int k = 0; k < n; k++) {
        half_floats[k] = to_half(values[k]);
        read[k] = from_half(half_floats[k]);
    }
}

extern "C" void shifts(float* values)
{
    for (int m = 0; m <= LMAX; m++) values[m] = shift_of(m);
}

extern "C" void philox(const unsigned int* counter, const unsigned int* key, unsigned int* answer)
{
    Words words = philox_block(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
    answer[0] = words.r0;
    answer[1] = words.r1;
    answer[2] = words.r2;
    answer[3] = words.r3;
}

#ifdef WARP
// How often a warp has gone round its loop since the last call, and how often a lane of one.
extern "C" void count_rounds(unsigned long long* counts)
{
    counts[0] = n_rounds;
    counts[1] = n_votes;
    n_rounds = n_votes = 0;
}
#endif

#ifdef COUNTED
// How often functions were called since the last question; g++ calls this hook at each entry.
static unsigned long long n_calls[4];

extern "C" __attribute__((no_instrument_function)) void __cyg_profile_func_enter(void* function,
                                                                                void*)
{
    if (function == (void*)&arrive) n_calls[0]++;
    if (function == (void*)&read_eight) n_calls[1]++;
    if (function == (void*)&philox_block) n_calls[2]++;
    if (function == (void*)&value_at) n_calls[3]++;
}

extern "C" __attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}

extern "C" void count_calls(unsigned long long* counts)
{
    for (int k = 0; k < 4; k++) {
        counts[k] = n_calls[k];
        n_calls[k] = 0;
    }
}
#endif
