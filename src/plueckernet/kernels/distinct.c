/* Which poses are distinct: estimation/distinct.py. */
#include "kernels.h"

/* Greedily the first of `count` poses, in their order, that are close to none chosen before: nine numbers of the
   rotation and three of the translation each. Two poses are close if the trace of the rotation between them is above
   `min_trace` and their squared distance below `max_square`. Returns how many rows were written to `chosen`. */
KERNEL int64_t distinct_poses(int64_t count, const float *rotation, const float *translation, float min_trace,
                              float max_square, int64_t max_count, int64_t *chosen)
{
    int64_t kept = 0;
    for (int64_t row = 0; row < count && kept < max_count; row++) {
        const float *r = rotation + 9 * row, *t = translation + 3 * row;
        int close = 0;
        for (int64_t k = 0; k < kept && !close; k++) {
            const float *other = translation + 3 * chosen[k];
            float x = t[0] - other[0], y = t[1] - other[1], z = t[2] - other[2];
            if (x * x + y * y + z * z >= max_square)
                continue;
            const float *turn = rotation + 9 * chosen[k];
            float trace = 0;
            for (int i = 0; i < 9; i++)
                trace += r[i] * turn[i];
            close = trace > min_trace;
        }
        if (!close)
            chosen[kept++] = row;
    }
    return kept;
}
