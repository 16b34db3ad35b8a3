// The kernels that tabulate an FOD, compiled for the host and called from Python.

#include "host_shim.h"
#include "tables.cu"

template <class Kernel>
static void launch(unsigned int grid, unsigned int block, Kernel kernel, const Rows& rows)
{
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++) kernel(rows);
}

extern "C" void launch_tables(int which, unsigned int grid, unsigned int block, const Rows* rows)
{
    if (which == 0) launch(grid, block, find_largest, *rows);
    if (which == 1) launch(grid, block, keep_largest, *rows);
    if (which == 2) launch(grid, block, write_quantised, *rows);
    if (which == 3) launch(grid, block, add_masses, *rows);
    if (which == 4) launch(grid, block, fill_slots, *rows);
}

extern "C" int size_of_rows()
{
    return sizeof(Rows);
}
