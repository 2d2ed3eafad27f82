/* Pairs of lines under a pose, and the steps of refining.c on them. */
#ifndef PLUECKERNET_REFINING_H
#define PLUECKERNET_REFINING_H

#include "kernels.h"

/* Pairs of lines. Lines are columns: three rows of directions, three of anchors, the squared noise factors and the
   inverse squared lengths, `count` numbers a row. */
struct pairs {
    int64_t count;
    const double *source, *target;
    const int64_t *rows[2]; /* which line of the source and of the target */
    int64_t lines[2];       /* of both maps */
    const int64_t *competitors;
    int64_t max_matches;
};

/* Sigmas of the position, the direction and the ends. */
struct noise {
    double position, direction, endpoint;
};

struct model {
    double rotation[9], translation[3];
    struct noise noise;
    double free; /* degrees of freedom of the direction */
    double distance, angle; /* threshold of the pairs */
    double unseen; /* competitors of every pair */
    int64_t iterations;
    int64_t is_upright;
    double up[3]; /* the vertical that the rotation keeps */
};

/* What a fit writes: `count` numbers a row, two rows of positions and of directions. */
struct fit {
    double *weight, *exclusive, *scale, *lever, *position, *direction;
    double *products;    /* (6, 7): information and gradient */
    double *information; /* (6, 6), of the covariance; NULL where it is not needed */
    double *xi;          /* (6,), then its length in standard deviations */
    double *pose;        /* (12,), after the step: the rotation row by row, then the translation */
};

KERNEL int64_t fit_pairs(const struct pairs *pairs, const struct model *model, struct fit *fit);
KERNEL int64_t count_competitors(int64_t count, const int64_t *rows, int64_t sources, int64_t targets, int64_t *first,
                                 int64_t *second, int64_t *competitors);
KERNEL int64_t noise_medians(const struct pairs *pairs, const struct fit *fit, int64_t count, const int64_t *rows,
                             double sigma, double unit, double floor, double *result);
KERNEL void direction_sums(const struct pairs *pairs, const struct fit *fit, const double *trust,
                           const struct noise *noise, double *result);
KERNEL void position_sums(const struct pairs *pairs, const struct fit *fit, const double *trust,
                          const struct noise *noise, double ratio, double *result);

#endif
