// The first direction of a streamline, before its halves are tracked, and the choice of the next ones.
#pragma once

#include "algorithms.h"

// Find the FOD at the last point, or at one of an arc that is tried; return the reason to stop there,
// or 0.
DEVICE int arrive(const Field& field, const Settings& settings, Interpolant& interpolant,
                  StreamlineState& state, unsigned int stream)
{
    bool tries = settings.curved && state.task == TRY;
    Trial trial;
    int last[3] = {interpolant.cell[0], interpolant.cell[1], interpolant.cell[2]};
    SharedFod fod = own_fod();
    float vx, vy, vz;
    if (tries) {
        trial = next_trial(settings, state, stream);
        to_voxel(field.to_voxel, trial.x, trial.y, trial.z, vx, vy, vz);
    } else {
        to_voxel(field.to_voxel, state.x, state.y, state.z, vx, vy, vz);
    }
    int missing = tries ? missing_at(field, settings, vx, vy, vz) : 0;
    bool with_mass = !tries || settings.interpolation == NEAREST;  // which keeps it within a voxel
    if (!missing) mix(field, settings, interpolant, fod, vx, vy, vz, with_mass);
    if (tries) return judge(field, settings, state, trial, missing);
    state.elsewhere = false;
    state.settled = state.settled && last[0] == interpolant.cell[0] &&
                    last[1] == interpolant.cell[1] && last[2] == interpolant.cell[2];
    state.bound = interpolant.bound;
    if (!(state.bound > 0.0f)) return NO_FOD;
    if (settings.edge == EDGE_VOXEL && interpolant.row == field.n_rows) return NO_FOD;
    if (positive(sharpness_of(settings), state.bound) < settings.min_amplitude)
        return LOW_AMPLITUDE;
    return 0;
}

// The FOD at the last point is found: go on to what chooses the direction.
//
// First directions are drawn, whatever the algorithm, by what also draws the next ones: so it is
// compiled once.
DEVICE void prepare_choice(const Field& field, const Settings& settings,
                           const Interpolant& interpolant, StreamlineState& state,
                           const float* seed_direction)
{
    bool starts = state.purpose == PURPOSE_START;
    if (starts && settings.start == START_GIVEN) {
        face(state, seed_direction[0], seed_direction[1], seed_direction[2]);
        state.task = START;
    } else if (starts && settings.start == START_MAX) {
        state.task = FIND_PEAK;
    } else {
        state.task = starts || settings.algorithm == PROBABILISTIC ? PROPOSE : CHOOSE;
        if (settings.lobe_cosine > 0.0f && !starts) {
            see_lobe(field, settings, interpolant, state);
        }
    }
}

// Choose the next direction where it is not drawn among proposals.
DEVICE void choose(const Field& field, const Settings& settings, Interpolant& interpolant,
                   StreamlineState& state, const float*, unsigned int stream)
{
    int reason = next_direction(settings.algorithm, field, settings, interpolant, state, stream);
    if (reason == 0)
        state.task = MOVE;
    else if (reason != AGAIN)
        end(state, reason);
}

// The peak that a direction leads up to, of the lane's own FOD: other lanes need not want one.
SELDOM Peak climb_alone(float x, float y, float z)
{
    return climb_from(own_fod(), x, y, z);
}

// Turn to the peak that the start direction leads up to, where the algorithm begins at peaks.
DEVICE void climb_to_start(const Settings& settings, StreamlineState& state)
{
    if (!starts_at_peak(settings.algorithm)) return;
    Peak peak = climb_alone(state.ux, state.uy, state.uz);
    face(state, peak.x, peak.y, peak.z);
}
