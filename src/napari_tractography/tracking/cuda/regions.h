// Regions in the kernel: which of them each point lies in. Twin of cpu/constraints/regions.py.
//
// Whether the last point lay in a region is tested again where it matters, so that any number of
// regions needs no memory.
#pragma once

#include "interpolation.h"

// Tell whether a point lies in region i.
DEVICE bool in_region(const Regions& regions, int i, float x, float y, float z)
{
    const float* geometry = regions.geometry + 12 * i;
    if (regions.shapes[i] == SHAPE_SPHERE) {
        float dx = x - geometry[0], dy = y - geometry[1], dz = z - geometry[2];
        return dx * dx + dy * dy + dz * dz <= geometry[3];
    }
    float vx, vy, vz;
    to_voxel(geometry, x, y, z, vx, vy, vz);
    int ix = nearest_voxel(vx), iy = nearest_voxel(vy), iz = nearest_voxel(vz);
    const long long* extent = regions.extents + 4 * i;
    if (ix < 0 || iy < 0 || iz < 0 || ix >= extent[0] || iy >= extent[1] || iz >= extent[2])
        return false;
    return regions.voxels[extent[3] + (ix * extent[1] + iy) * extent[2] + iz] != 0;
}

DEVICE void forget_visits(const Regions& regions, Visits& visits)
{
    visits.visited = 0;
    if (regions.rule != RULE_ORDERED) return;
    for (int half = 0; half < 2; half++) {
        for (int q = 0; q < regions.n_includes + 1; q++) {
            visits.ups[half][q] = (signed char)q;
            visits.downs[half][q] = (signed char)(q - 1);
        }
    }
}

// Record which regions a point lies in; return the reason to stop there, or 0.
//
// Stop and end regions act where a streamline enters them, coming from (last_x, last_y, last_z),
// so that it may start inside.
static __device__ __noinline__ int visit_regions(const Regions& regions, Visits& visits, int half,
                                                 bool at_seed, float x, float y, float z,
                                                 float last_x, float last_y, float last_z)
{
    int reason = 0;
    unsigned int inside = 0;  // bits of the include regions
    for (int i = 0; i < regions.n_regions; i++) {
        if (!in_region(regions, i, x, y, z)) continue;
        int role = regions.roles[i];
        if (role == ROLE_EXCLUDE) return EXCLUDED;
        if (role == ROLE_INCLUDE) {
            int order = regions.orders[i];
            inside |= 1u << order;
            if (regions.rule == RULE_ORDERED) {
                for (int q = 0; q < regions.n_includes + 1; q++) {
                    if (visits.ups[half][q] == order)
                        visits.ups[half][q] = (signed char)(order + 1);
                }
            }
        } else if (!at_seed && !in_region(regions, i, last_x, last_y, last_z)) {
            reason = role == ROLE_END || reason == END_REGION ? END_REGION : STOP_REGION;
        }
    }
    visits.visited |= inside;
    if (regions.rule == RULE_ORDERED) {
        // The other half runs against the order: a point in several regions meets the last first.
        for (int order = regions.n_includes - 1; order >= 0; order--) {
            if (!(inside >> order & 1u)) continue;
            for (int q = 0; q < regions.n_includes + 1; q++) {
                if (visits.downs[half][q] == order)
                    visits.downs[half][q] = (signed char)(order - 1);
            }
        }
    }
    return reason;
}

// Tell whether the joined streamline meets the rule of the include regions.
DEVICE bool includes_met(const Regions& regions, const Visits& visits)
{
    if (regions.n_includes == 0) return true;
    unsigned int every = (1u << regions.n_includes) - 1u;
    if (regions.rule == RULE_ANY) return visits.visited != 0;
    if (visits.visited != every) return false;
    if (regions.rule == RULE_ALL) return true;
    // In order from end to end: from the seed outwards one half meets regions q - 1 down to the
    // first, the other q up to the last.
    for (int q = 0; q < regions.n_includes + 1; q++) {
        for (int half = 0; half < 2; half++) {
            if (visits.downs[half][q] < 0 && visits.ups[1 - half][q] == regions.n_includes)
                return true;
        }
    }
    return false;
}
