/* Whether inliers resist all motions: the least firmness of estimation/observability.py. */
#include "small_matrices.h"

#define MIN_SPREAD 0.1  /* as in observability.py */
#define MIN_EXTENT 0.25

typedef struct {
    int64_t count;
    const int64_t *rows;
    const double *anchor, *direction, *half_length; /* of all lines; no half lengths of infinite lines */
    double centre[3], size;                         /* of the inliers: their mean anchor, and how far from it they are */
} Inliers;

static void offset_of(const Inliers *inliers, int64_t k, double offset[3])
{
    const double *anchor = inliers->anchor + 3 * inliers->rows[k];
    for (int i = 0; i < 3; i++)
        offset[i] = anchor[i] - inliers->centre[i];
}

/* Root mean square of the coordinate along a line. */
static double extent_of(const Inliers *inliers, int64_t k)
{
    if (!inliers->half_length)
        return inliers->size / sqrt(3);
    double extent = inliers->half_length[inliers->rows[k]] / sqrt(3), least = MIN_EXTENT * inliers->size;
    return extent > least ? extent : least;
}

static void measure(Inliers *inliers)
{
    double sum[3] = {0, 0, 0}, squares = 0, offset[3];
    for (int64_t k = 0; k < inliers->count; k++)
        for (int i = 0; i < 3; i++)
            sum[i] += inliers->anchor[3 * inliers->rows[k] + i];
    for (int i = 0; i < 3; i++)
        inliers->centre[i] = sum[i] / (double)inliers->count;
    for (int64_t k = 0; k < inliers->count; k++) {
        offset_of(inliers, k, offset);
        squares += offset[0] * offset[0] + offset[1] * offset[1] + offset[2] * offset[2];
    }
    double size = sqrt(squares / (double)inliers->count);
    inliers->size = size > 1e-12 ? size : 1e-12;
}

/* Add the lower triangle of the squares of a row of derivatives. */
static void add_square(const double row[MOTIONS], double *matrix)
{
    for (int i = 0; i < MOTIONS; i++)
        for (int j = 0; j <= i; j++)
            matrix[MOTIONS * i + j] += row[i] * row[j];
}

/* Row `i` of the matrix `[v]x`. */
static void cross_row(const double v[3], int i, double row[3])
{
    int next = (i + 1) % 3, last = (i + 2) % 3;
    row[i] = 0;
    row[next] = -v[last];
    row[last] = v[next];
}

/* Add the squared displacements across one line. */
static void add_across(const double offset[3], const double *direction, double extent, double *across)
{
    double along[3], cross[3][3];
    for (int i = 0; i < 3; i++) {
        along[i] = direction[i] * extent;
        cross_row(offset, i, cross[i]);
    }
    for (int i = 0; i < 3; i++) {
        double row[MOTIONS] = {0, 0, 0, 0, 0, 0}, turn[MOTIONS] = {0, 0, 0, 0, 0, 0};
        for (int j = 0; j < 3; j++) {
            double project = (i == j) - direction[i] * direction[j];
            for (int k = 0; k < 3; k++)
                row[k] -= project * cross[j][k];
            row[3 + j] = project;
        }
        cross_row(along, i, turn);
        add_square(row, across);
        add_square(turn, across);
    }
}

/* Whether each motion is resisted by more than `least` of the given rows of lines. Where it says no, firmness has to be
   computed: the spread of points that is assumed where they have none is a little larger here. */
KERNEL int all_motions_firm(int64_t count, const int64_t *rows, const double *anchor, const double *direction,
                            const double *half_length, double least)
{
    Inliers inliers = {count, rows, anchor, direction, half_length, {0, 0, 0}, 0};
    double across[MOTIONS * MOTIONS] = {0}, spread[3][3] = {{0}}, factor[MOTIONS][MOTIONS];
    if (count < 1)
        return 0;
    measure(&inliers);
    for (int64_t k = 0; k < count; k++) {
        double offset[3], extent = extent_of(&inliers, k);
        const double *d = direction + 3 * rows[k];
        offset_of(&inliers, k, offset);
        add_across(offset, d, extent, across);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                spread[i][j] += (offset[i] * offset[j] + extent * extent * d[i] * d[j]) / (double)count;
    }
    double trace = spread[0][0] + spread[1][1] + spread[2][2], more = MIN_SPREAD * MIN_SPREAD * trace;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) /* the inertia of the points */
            across[MOTIONS * i + j] -= least * ((i == j ? trace + 2 * more : 0) - spread[i][j]);
        across[(MOTIONS + 1) * (3 + i)] -= least;
    }
    return factorize(across, factor);
}
