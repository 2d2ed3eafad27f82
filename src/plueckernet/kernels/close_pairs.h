/* Poses and thresholds, and the comparisons of close_pairs.c. */
#ifndef PLUECKERNET_CLOSE_PAIRS_H
#define PLUECKERNET_CLOSE_PAIRS_H

#include "kernels.h"

/* Rotation row by row, then translation. */
struct pose {
    double rotation[9], translation[3];
};

struct limits {
    double distance, angle, slope;
    int64_t directed;
};

KERNEL int64_t still_close(const struct pose *pose, int64_t count, const double *source, const double *target,
                           const double *half, const struct limits *limits, int64_t *places);
KERNEL double largest_shift(const struct pose *first, const struct pose *second, int64_t count, const double *points);

#endif
