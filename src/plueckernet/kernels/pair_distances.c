/* How far pairs of lines are apart under a pose: residual_norms() of geometry/residuals.py. */
#include "kernels.h"

#define MIN_COSINE 1e-6
#define DEGREES 57.295779513082320877

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double cross_norm(const double *a, const double *b)
{
    double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2], z = a[0] * b[1] - a[1] * b[0];
    return sqrt(x * x + y * y + z * z);
}

/* Distance, in map units, and angle in degrees of each pair of rows (source, target). */
KERNEL void pair_distances(int64_t count, const int64_t *rows, const double *rotation, const double *translation,
                           const double *direction, const double *anchor, const double *other_direction,
                           const double *other_anchor, double unit, double *results)
{
    for (int64_t k = 0; k < count; k++) {
        const double *d = direction + 3 * rows[2 * k], *p = anchor + 3 * rows[2 * k];
        const double *e = other_direction + 3 * rows[2 * k + 1], *q = other_anchor + 3 * rows[2 * k + 1];
        double turned[3], gap[3], offset[3];
        for (int i = 0; i < 3; i++) {
            turned[i] = dot(rotation + 3 * i, d);
            gap[i] = dot(rotation + 3 * i, p) + translation[i] - q[i];
        }
        double cosine = dot(turned, e);
        if (fabs(cosine) < MIN_COSINE)
            cosine = cosine < 0 ? -MIN_COSINE : MIN_COSINE;
        double lever = dot(gap, e) / cosine;
        for (int i = 0; i < 3; i++)
            offset[i] = gap[i] - lever * turned[i];
        double sine = cross_norm(turned, e);
        results[2 * k] = cross_norm(offset, e) * unit;
        results[2 * k + 1] = asin(sine < 1 ? sine : 1) * DEGREES;
    }
}
