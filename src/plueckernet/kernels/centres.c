/* The centre of infinite lines, and how far they are from it: LineSet.centre() and estimation/strays.py. */
#include "kernels.h"

#define SWEEPS 30 /* of the rotations that make a matrix diagonal; they converge in about six */
#define NEAR_FRACTION 0.75
#define ROUNDS 5

/* Turn coordinates i and j so that the entry of a symmetric matrix between them becomes zero. */
static void rotate(double matrix[3][3], double vectors[3][3], int i, int j)
{
    if (matrix[i][j] == 0)
        return;
    double theta = (matrix[j][j] - matrix[i][i]) / (2 * matrix[i][j]);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < 3; k++) {
        double a = matrix[k][i], b = matrix[k][j];
        matrix[k][i] = c * a - s * b;
        matrix[k][j] = s * a + c * b;
    }
    for (int k = 0; k < 3; k++) {
        double a = matrix[i][k], b = matrix[j][k], u = vectors[k][i], v = vectors[k][j];
        matrix[i][k] = c * a - s * b;
        matrix[j][k] = s * a + c * b;
        vectors[k][i] = c * u - s * v;
        vectors[k][j] = s * u + c * v;
    }
    matrix[i][j] = matrix[j][i] = 0;
}

/* The solution of a symmetric system that is nearest to the origin. */
static void least_squares(double matrix[3][3], const double right[3], double solution[3])
{
    double vectors[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, largest = 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        rotate(matrix, vectors, 0, 1);
        rotate(matrix, vectors, 0, 2);
        rotate(matrix, vectors, 1, 2);
        if (matrix[0][1] == 0 && matrix[0][2] == 0 && matrix[1][2] == 0)
            break;
    }
    for (int k = 0; k < 3; k++)
        largest = fabs(matrix[k][k]) > largest ? fabs(matrix[k][k]) : largest;
    solution[0] = solution[1] = solution[2] = 0;
    for (int k = 0; k < 3; k++) {
        if (!(fabs(matrix[k][k]) > 3 * 2.220446049250313e-16 * largest))
            continue;
        double along = vectors[0][k] * right[0] + vectors[1][k] * right[1] + vectors[2][k] * right[2];
        for (int i = 0; i < 3; i++)
            solution[i] += vectors[i][k] * along / matrix[k][k];
    }
}

/* The point of a line that is nearest to the origin. */
static void foot_of(const double *d, const double *m, double foot[3])
{
    foot[0] = d[1] * m[2] - d[2] * m[1];
    foot[1] = d[2] * m[0] - d[0] * m[2];
    foot[2] = d[0] * m[1] - d[1] * m[0];
}

/* The point nearest to the lines whose distance is at most `limit`; to all lines without distances. With P = I - d d^T
   it solves (sum P) c = sum f, where f are the foot points. */
static void centre_of(int64_t count, const double *direction, const double *moment, const double *distance,
                      double limit, double centre[3])
{
    double across[3][3] = {{0}}, feet[3] = {0, 0, 0};
    for (int64_t i = 0; i < count; i++) {
        const double *d = direction + 3 * i;
        double foot[3];
        if (distance && !(distance[i] <= limit))
            continue;
        foot_of(d, moment + 3 * i, foot);
        for (int k = 0; k < 3; k++) {
            feet[k] += foot[k];
            for (int l = 0; l < 3; l++)
                across[k][l] += (k == l) - d[k] * d[l];
        }
    }
    least_squares(across, feet, centre);
}

KERNEL void line_centre(int64_t count, const double *direction, const double *moment, double centre[3])
{
    centre_of(count, direction, moment, NULL, 0, centre);
}

static void distances_from(int64_t count, const double *direction, const double *moment, const double c[3],
                           double *distance)
{
    for (int64_t i = 0; i < count; i++) {
        const double *d = direction + 3 * i;
        double foot[3], along = c[0] * d[0] + c[1] * d[1] + c[2] * d[2], square = 0;
        foot_of(d, moment + 3 * i, foot);
        for (int k = 0; k < 3; k++) {
            double offset = foot[k] - c[k] + d[k] * along;
            square += offset * offset;
        }
        distance[i] = sqrt(square);
    }
}

/* The value that has `place` smaller ones before it; the values change their order. */
static double selected(double *values, int64_t count, int64_t place)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                double other = values[i];
                values[i++] = values[j];
                values[j--] = other;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return values[place];
}

/* The distance below which a fraction of them is. */
static double quantile_of(const double *distance, int64_t count, double fraction, double *scratch)
{
    double place = fraction * (double)(count - 1);
    int64_t low = (int64_t)place, high = low + 1 < count ? low + 1 : count - 1;
    memcpy(scratch, distance, sizeof(double) * (size_t)count);
    double first = selected(scratch, count, low), second = selected(scratch, count, high);
    return first + (place - (double)low) * (second - first);
}

/* The median, the smaller of two, and the largest of the distances. */
static void summarize(const double *distance, int64_t count, double *scratch, double summary[2])
{
    memcpy(scratch, distance, sizeof(double) * (size_t)count);
    summary[0] = summary[1] = count > 0 ? selected(scratch, count, (count - 1) / 2) : 0;
    for (int64_t i = 0; i < count; i++)
        summary[1] = distance[i] > summary[1] ? distance[i] : summary[1];
}

/* Distances of lines from the centre that most of them agree on, and their median and the largest in `summary`.
   Returns 0, or 1 if they are not finite or there was no memory. */
KERNEL int centred_distances(int64_t count, const double *direction, const double *moment, double *distance,
                             double summary[2])
{
    double centre[3], last = INFINITY, limit = INFINITY, *scratch = malloc(sizeof(double) * (size_t)(count + 1));
    if (!scratch)
        return 1;
    centre_of(count, direction, moment, NULL, 0, centre);
    distances_from(count, direction, moment, centre, distance);
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        int finite = 1;
        for (int64_t i = 0; i < count; i++)
            finite &= distance[i] < INFINITY; /* no order among others */
        if (!finite) {
            free(scratch);
            return 1;
        }
        last = limit;
        limit = quantile_of(distance, count, NEAR_FRACTION, scratch);
        centre_of(count, direction, moment, distance, limit, centre);
        distances_from(count, direction, moment, centre, distance);
        if (limit == last) /* as will be all that follow */
            break;
    }
    int finite = 1;
    for (int64_t i = 0; i < count; i++)
        finite &= distance[i] < INFINITY;
    if (finite)
        summarize(distance, count, scratch, summary);
    free(scratch);
    return !finite;
}

/* A quantile of the distances of lines from their centre; NaN if they are not finite or there was no memory. */
KERNEL double line_extent(int64_t count, const double *direction, const double *moment, double fraction)
{
    double centre[3], extent = NAN, *distance = malloc(2 * sizeof(double) * (size_t)(count + 1));
    int finite = distance && count > 0;
    if (finite) {
        centre_of(count, direction, moment, NULL, 0, centre);
        distances_from(count, direction, moment, centre, distance);
    }
    for (int64_t i = 0; i < count && finite; i++)
        finite = distance[i] < INFINITY;
    if (finite)
        extent = quantile_of(distance, count, fraction, distance + count + 1);
    free(distance);
    return extent;
}
