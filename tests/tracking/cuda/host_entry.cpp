// The kernels, compiled for the host and called from Python.

#include "host_shim.h"
#include "track.cu"
#include "tables.cu"

template <class Kernel> static void launch(unsigned int grid, unsigned int block, Kernel kernel)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block(block, kernel);
}

extern "C" void launch_tracking(unsigned int grid, unsigned int block, const Field* field,
                                const Settings* settings, const Regions* regions,
                                const Batch* batch)
{
    launch(grid, block, [=] { track_streamlines(*field, *settings, *regions, *batch); });
}

extern "C" void launch_gathering(unsigned int grid, unsigned int block, const Settings* settings,
                                 const Batch* batch)
{
    gridDim.x = grid;
    launch(grid, block, [=] { gather_points(*settings, *batch); });
}

extern "C" void launch_between(int which, unsigned int grid, unsigned int block,
                               const Batch* batch)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) {
            if (which == 0) add_tiles(*batch);
            if (which == 1) scan_tiles(*batch);
            if (which == 2) place_streamlines(*batch);
            if (which == 3) write_endpoints(*batch);
        }
}

// One of fill_rows, follow_ways and look_around.
extern "C" void launch_rows(int which, unsigned int grid, unsigned int block, const Rows* rows)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) {
            if (which == 0) fill_rows(*rows);
            if (which == 1) follow_ways(*rows);
            if (which == 2) look_around(*rows);
        }
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

extern "C" int compiled_asymmetric()
{
    return ASYMMETRIC;
}

extern "C" void size_of_structures(int* sizes)
{
    sizes[0] = sizeof(Field);
    sizes[1] = sizeof(Settings);
    sizes[2] = sizeof(Regions);
    sizes[3] = sizeof(Batch);
    sizes[4] = sizeof(Rows);
}

extern "C" int size_of_common()
{
    return sizeof(Common);
}

extern "C" int lanes_of_warp()
{
    return N_LANES;
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
// How often a warp has gone through each phase since the last call, and how many lanes.
extern "C" void count_phases(unsigned long long* warps, unsigned long long* lanes)
{
    for (int k = 0; k < 16; k++) {
        warps[k] = warps_in[k];
        lanes[k] = lanes_in[k];
        warps_in[k] = lanes_in[k] = 0;
    }
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
    if (function == (void*)&values_at<1, SharedFod>) n_calls[3]++;
    if (function == (void*)&values_at<PROPOSALS_A_BLOCK, SharedFod>) n_calls[3] += PROPOSALS_A_BLOCK;
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
