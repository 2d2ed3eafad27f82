/* Motions from two lines and their images: geometry/alignment.py and `_with_common_rotations` of
   estimation/symmetry.py. */
#ifndef PLUECKERNET_SYMMETRY_MOTIONS_H
#define PLUECKERNET_SYMMETRY_MOTIONS_H

#include "symmetry.h"

/* Two lines. */
typedef struct {
    float direction[2][3], moment[2][3], anchor[2][3];
} LinePair;

typedef struct {
    float rotation[9], translation[3], point[3]; /* the point moves as the motion was computed to move it */
} Motion;

static inline LinePair line_pair(const MapLines *lines, int64_t first, int64_t second)
{
    LinePair pair;
    for (int k = 0; k < 2; k++) {
        int64_t row = k ? second : first;
        vector_of(lines->direction, row, pair.direction[k]);
        vector_of(lines->moment, row, pair.moment[k]);
        vector_of(lines->anchor, row, pair.anchor[k]);
    }
    return pair;
}

/* What a rigid motion leaves as it is, up to the signs of the lines. */
typedef struct {
    float cosine, sine, gap;
} DirectedShape;

static inline DirectedShape directed_shape(const LinePair *pair)
{
    const float *d = pair->direction[0], *e = pair->direction[1];
    float cosine = dot3(d, e), square = 1 - cosine * cosine, sine = sqrtf(square > 0 ? square : 0);
    float mutual = dot3(d, pair->moment[1]) + dot3(e, pair->moment[0]);
    return (DirectedShape){cosine, sine, mutual / (sine > 1e-12f ? sine : 1e-12f)};
}

/* `two_line_agreement` for lines that point the same way (sign 1) or of which one is flipped (-1). */
static inline int shapes_agree(DirectedShape given, DirectedShape image, float sign, const InlierThreshold *threshold)
{
    float min_sine = (float)(threshold->angle > 1e-3 ? threshold->angle : 1e-3);
    return given.sine > min_sine && image.sine > min_sine &&
           given.sine * image.sine + given.cosine * image.cosine * sign > (float)cos(threshold->angle) &&
           fabsf(given.gap - image.gap * sign) < (float)threshold->distance;
}

/* Sum, difference and normal of two directions, each of length one. */
static inline void frame_of(const LinePair *pair, float frame[3][3])
{
    const float *d = pair->direction[0], *e = pair->direction[1];
    float twice = 2 * dot3(d, e), plus = 1 / sqrtf(2 + twice), minus = 1 / sqrtf(2 - twice);
    for (int i = 0; i < 3; i++) {
        frame[0][i] = (d[i] + e[i]) * plus;
        frame[1][i] = (d[i] - e[i]) * minus;
    }
    cross3(frame[0], frame[1], frame[2]);
}

/* Midpoint of the common perpendicular. */
static inline void meeting_point(const LinePair *pair, float *point)
{
    const float *d = pair->direction[0], *e = pair->direction[1];
    float first[3], second[3], cosine = dot3(d, e);
    cross3(d, pair->moment[0], first);
    cross3(e, pair->moment[1], second);
    float to_second = dot3(second, d), to_first = dot3(first, e), scale = 1 / (1 - cosine * cosine);
    float s = (to_second + cosine * to_first) * scale, t = (to_first + cosine * to_second) * scale;
    for (int i = 0; i < 3; i++)
        point[i] = (first[i] + s * d[i] + second[i] + t * e[i]) / 2;
}

static inline void set_translation(Motion *motion, const float *from, const float *to)
{
    float moved[3];
    turned3(motion->rotation, from, moved);
    for (int i = 0; i < 3; i++)
        motion->translation[i] = to[i] - moved[i];
}

/* `two_line_poses` of the choices of signs that agree: at most four motions, returns how many. */
static inline int64_t crossing_motions(const LinePair *given, const LinePair *image, const InlierThreshold *threshold,
                                       Motion *motions)
{
    DirectedShape own = directed_shape(given), other = directed_shape(image);
    float f[3][3], g[3][3], from[3], to[3];
    int64_t count = 0;
    frame_of(given, f);
    frame_of(image, g);
    meeting_point(given, from);
    meeting_point(image, to);
    for (int flipped = 0; flipped < 2; flipped++) {
        if (!shapes_agree(own, other, flipped ? -1.0f : 1.0f, threshold))
            continue;
        for (int sign = 1; sign >= -1; sign -= 2) {
            Motion *motion = motions + count++;
            for (int i = 0; i < 3; i++) {
                for (int k = 0; k < 3; k++) { /* flipping one line swaps sum and difference */
                    float across = flipped ? g[1][i] * f[0][k] + g[0][i] * f[1][k]
                                           : g[0][i] * f[0][k] + g[1][i] * f[1][k];
                    float normal = g[2][i] * f[2][k];
                    motion->rotation[3 * i + k] = (float)sign * across + (flipped ? -normal : normal);
                }
                motion->point[i] = (given->anchor[0][i] + given->anchor[1][i]) / 2;
            }
            set_translation(motion, from, to);
        }
    }
    return count;
}

/* Direction, offset across it and their normal, as columns. */
static inline void parallel_frame(const LinePair *pair, float sign, float frame[3][3])
{
    float offset[3], along, length;
    for (int i = 0; i < 3; i++) {
        frame[0][i] = sign * pair->direction[0][i];
        offset[i] = pair->anchor[1][i] - pair->anchor[0][i];
    }
    along = dot3(offset, frame[0]);
    for (int i = 0; i < 3; i++)
        offset[i] -= along * frame[0][i];
    length = sqrtf(dot3(offset, offset));
    for (int i = 0; i < 3; i++)
        frame[1][i] = offset[i] / (length > 1e-12f ? length : 1e-12f);
    cross3(frame[0], frame[1], frame[2]);
}

/* The motion that takes two parallel lines to two others, whose direction may be flipped. */
static inline void parallel_motion(const LinePair *given, const LinePair *image, float sign, Motion *motion)
{
    float f[3][3], g[3][3], from[3], to[3];
    parallel_frame(given, 1.0f, f);
    parallel_frame(image, sign, g);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            motion->rotation[3 * i + k] = g[0][i] * f[0][k] + g[1][i] * f[1][k] + g[2][i] * f[2][k];
        from[i] = motion->point[i] = (given->anchor[0][i] + given->anchor[1][i]) / 2;
        to[i] = (image->anchor[0][i] + image->anchor[1][i]) / 2;
    }
    set_translation(motion, from, to);
}

/* Eigenvalues and eigenvectors (columns) of a symmetric matrix by Jacobi's method; the matrix becomes diagonal. */
static inline void eigen3(double a[3][3], double vectors[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            vectors[i][k] = i == k;
    for (int sweep = 0; sweep < 12; sweep++) {
        double off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
        double size = a[0][0] * a[0][0] + a[1][1] * a[1][1] + a[2][2] * a[2][2];
        if (!(off > 1e-26 * size))
            return;
        for (int p = 0; p < 2; p++) {
            for (int q = p + 1; q < 3; q++) {
                if (a[p][q] == 0)
                    continue;
                double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 3; k++) { /* columns, of the matrix and of the vectors */
                    double x = a[k][p], y = a[k][q], u = vectors[k][p], v = vectors[k][q];
                    a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
                    vectors[k][p] = c * u - s * v, vectors[k][q] = s * u + c * v;
                }
                for (int k = 0; k < 3; k++) {
                    double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
                }
            }
        }
    }
}

/* Unit vector of `m v` across another one; returns the length of `m v`. */
static inline double image_across(double m[3][3], const double *v, const double *other, double *image)
{
    double length, along, square = 0;
    for (int i = 0; i < 3; i++)
        image[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
    length = sqrt(image[0] * image[0] + image[1] * image[1] + image[2] * image[2]);
    along = image[0] * other[0] + image[1] * other[1] + image[2] * other[2];
    for (int i = 0; i < 3; i++) {
        image[i] -= along * other[i];
        square += image[i] * image[i];
    }
    for (int i = 0; i < 3; i++)
        image[i] /= sqrt(square);
    return length;
}

/* The rotation `R` that maximizes the trace of `R^T m`, unless the second singular value is too small. */
static inline void nearest_rotation(double m[3][3], double min_second, float *rotation)
{
    static const double nothing[3] = {0, 0, 0};
    double square[3][3], vectors[3][3], u[3][3], v[3][3];
    int order[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            square[i][k] = m[0][i] * m[0][k] + m[1][i] * m[1][k] + m[2][i] * m[2][k];
    eigen3(square, vectors);
    for (int pass = 0; pass < 2; pass++) { /* the largest first, then the second */
        for (int k = 2; k > pass; k--) {
            if (square[order[k]][order[k]] > square[order[k - 1]][order[k - 1]]) {
                int swapped = order[k];
                order[k] = order[k - 1], order[k - 1] = swapped;
            }
        }
        for (int i = 0; i < 3; i++)
            v[pass][i] = vectors[i][order[pass]];
    }
    double first = image_across(m, v[0], nothing, u[0]), second = image_across(m, v[1], u[0], u[1]);
    if (!(second > min_second * first))
        return;
    for (int i = 0; i < 3; i++) {
        int next = (i + 1) % 3, last = (i + 2) % 3;
        u[2][i] = u[0][next] * u[1][last] - u[0][last] * u[1][next];
        v[2][i] = v[0][next] * v[1][last] - v[0][last] * v[1][next];
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            rotation[3 * i + k] = (float)(u[0][i] * v[0][k] + u[1][i] * v[1][k] + u[2][i] * v[2][k]);
}

/* The first place of a value among `n`, or the last place if it is nowhere. */
static inline int64_t place_of(float value, const float *values, int64_t n)
{
    int32_t place = (int32_t)n - 1;
#pragma omp simd reduction(min : place)
    for (int32_t j = 0; j < (int32_t)n; j++) {
        int32_t candidate = values[j] == value ? j : (int32_t)n - 1;
        place = candidate < place ? candidate : place;
    }
    return place;
}

/* The line whose direction is closest to a vector, whatever its sign, and the cosine between both. */
static inline int64_t closest_direction(const MapLines *lines, const float *vector, float *cosines, float *cosine)
{
    const float *dx = lines->direction[0], *dy = lines->direction[1], *dz = lines->direction[2];
    int64_t n = lines->count;
    float x = vector[0], y = vector[1], z = vector[2], best = -1;
#pragma omp simd reduction(max : best)
    for (int64_t j = 0; j < n; j++) {
        float value = fabsf(x * dx[j] + y * dy[j] + z * dz[j]);
        cosines[j] = value;
        best = value > best ? value : best;
    }
    int64_t closest = place_of(best, cosines, n);
    *cosine = x * dx[closest] + y * dy[closest] + z * dz[closest];
    return closest;
}

/* `_agreeing`: the rotation after a step that aligns the directions of some lines with the closest ones. */
static inline void agree_with_directions(const MapLines *lines, int64_t step, double min_cosine, double min_second,
                                         float *cosines, float *rotation)
{
    double m[3][3] = {{0}};
    for (int64_t s = 0; s < lines->count; s += step) {
        float direction[3], moved[3], image[3], cosine;
        vector_of(lines->direction, s, direction);
        turned3(rotation, direction, moved);
        int64_t column = closest_direction(lines, moved, cosines, &cosine);
        if (!(fabsf(cosine) > (float)min_cosine))
            continue;
        vector_of(lines->direction, column, image);
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++)
                m[i][k] += cosine < 0 ? -(double)image[i] * direction[k] : (double)image[i] * direction[k];
    }
    nearest_rotation(m, min_second, rotation);
}

static inline int rotations_alike(const float *a, const float *b, float min_trace)
{
    float trace = 0;
    for (int i = 0; i < 9; i++)
        trace += a[i] * b[i];
    return trace > min_trace;
}

/* Rotations that motions may share, and what they must agree with. */
typedef struct {
    double angle, min_second;
    int64_t directions, max_count;
    float *rotations; /* room for twice `max_count` of nine numbers */
    float *cosines;   /* room for one number a line */
} CommonRotations;

/* `_with_common_rotations`: rotations that are alike are replaced by one that agrees with the directions of many
   lines. */
static inline void share_rotations(const MapLines *lines, const CommonRotations *limits, Motion *motions, int64_t count)
{
    float *given = limits->rotations, *common = given + 9 * limits->max_count;
    float min_trace = (float)(1 + 2 * cos(limits->angle));
    int64_t kinds = 0, step = 1 + lines->count / (limits->directions > 0 ? limits->directions : 1);
    for (int64_t h = 0; h < count; h++) {
        Motion *motion = motions + h;
        int64_t kind = 0;
        while (kind < kinds && !rotations_alike(motion->rotation, given + 9 * kind, min_trace))
            kind++;
        if (kind == limits->max_count)
            continue;
        float *shared = common + 9 * kind, before[3], after[3];
        if (kind == kinds) {
            memcpy(given + 9 * kind, motion->rotation, sizeof motion->rotation);
            memcpy(shared, motion->rotation, sizeof motion->rotation);
            agree_with_directions(lines, step, cos(limits->angle), limits->min_second, limits->cosines, shared);
            kinds++;
        }
        turned3(motion->rotation, motion->point, before);
        turned3(shared, motion->point, after);
        for (int i = 0; i < 3; i++)
            motion->translation[i] += before[i] - after[i];
        memcpy(motion->rotation, shared, sizeof motion->rotation);
    }
}

#endif
