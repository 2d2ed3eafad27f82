/* The encoder of the invariant matcher: models/invariant_encoder.py and, for the scale, models/line_invariants.py. */
#include "edges.h"

#define SCALE_NEIGHBOUR 8
#define MIN_SCALE 1e-6
#define ROWS 48 /* lines of which features are computed at once */

typedef struct {
    EdgeSizes edge_sizes;
    EdgeWeights edge_weights;
    int64_t channels, radial, is_segment, is_joint; /* joint: lengths are divided by one scale for both maps */
    float spread;                                   /* of the radial functions */
    const float *centres, *gain, *line;             /* of these functions; of theirs on lines; weights of the layers */
} Encoder;

/* The planes of a set. */
typedef struct {
    int64_t n;
    double *direction, *anchor, *moment, *along, *square; /* three planes of n each, or one */
    const double *points;                                 /* moments, or two ends of each */
} LineSet;

static LineSet set_of(double *planes, const double *points, int64_t n)
{
    return (LineSet){n, planes, planes + 3 * n, planes + 6 * n, planes + 9 * n, planes + 10 * n, points};
}

static void cross(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static void load(const double *planes, int64_t n, int64_t i, double *vector)
{
    for (int k = 0; k < 3; k++)
        vector[k] = planes[k * n + i];
}

static void store(double *planes, int64_t n, int64_t i, const double *vector)
{
    for (int k = 0; k < 3; k++)
        planes[k * n + i] = vector[k];
}

/* Anchors are midpoints, relative to their mean. */
static void anchor_segments(const LineSet *set)
{
    double mean[3] = {0, 0, 0};
    for (int64_t i = 0; i < set->n; i++)
        for (int k = 0; k < 3; k++) {
            double middle = (set->points[6 * i + k] + set->points[6 * i + 3 + k]) / 2;
            set->anchor[k * set->n + i] = middle;
            mean[k] += middle;
        }
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < set->n; i++)
            set->anchor[k * set->n + i] -= mean[k] / set->n;
}

/* The inverse of n - Σ d dᵀ with a small ridge, by cross products. */
static void inverse_normal(const LineSet *set, double inverse[3][3])
{
    double matrix[3][3] = {{0}}, cofactors[3][3];
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++)
            for (int64_t i = 0; i < set->n; i++)
                matrix[j][k] -= set->direction[j * set->n + i] * set->direction[k * set->n + i];
    for (int k = 0; k < 3; k++)
        matrix[k][k] += set->n;
    double ridge = 1e-9 * (matrix[0][0] + matrix[1][1] + matrix[2][2]);
    for (int k = 0; k < 3; k++)
        matrix[k][k] += ridge;
    for (int k = 0; k < 3; k++)
        cross(matrix[(k + 1) % 3], matrix[(k + 2) % 3], cofactors[k]);
    double determinant = 0;
    for (int k = 0; k < 3; k++)
        determinant += matrix[0][k] * cofactors[0][k];
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++)
            inverse[j][k] = cofactors[k][j] / determinant;
}

/* Anchors are foot points of the perpendiculars from the least-squares centre, which is found in three steps. */
static void anchor_infinite(const LineSet *set)
{
    int64_t n = set->n;
    double inverse[3][3], centre[3], sum[3], d[3], m[3], foot[3];
    inverse_normal(set, inverse);
    for (int64_t i = 0; i < n; i++)
        store(set->moment, n, i, set->points + 3 * i);
    for (int step = 0; step < 4; step++) {
        sum[0] = sum[1] = sum[2] = 0;
        for (int64_t i = 0; i < n; i++) {
            load(set->direction, n, i, d);
            load(set->moment, n, i, m);
            cross(d, m, foot);
            store(set->anchor, n, i, foot);
            for (int k = 0; k < 3; k++)
                sum[k] += foot[k];
        }
        for (int k = 0; k < 3; k++)
            centre[k] = inverse[k][0] * sum[0] + inverse[k][1] * sum[1] + inverse[k][2] * sum[2];
        for (int64_t i = 0; i < n && step < 3; i++) {
            load(set->direction, n, i, d);
            cross(centre, d, foot);
            for (int k = 0; k < 3; k++)
                set->moment[k * n + i] -= foot[k];
        }
    }
}

/* What follows from directions and anchors. */
static void complete(const LineSet *set)
{
    int64_t n = set->n;
    for (int64_t i = 0; i < n; i++) {
        double d[3], p[3], m[3];
        load(set->direction, n, i, d);
        load(set->anchor, n, i, p);
        cross(p, d, m);
        store(set->moment, n, i, m);
        set->along[i] = d[0] * p[0] + d[1] * p[1] + d[2] * p[2];
        set->square[i] = p[0] * p[0] + p[1] * p[1] + p[2] * p[2];
    }
}

/* The squared distance of a line to its neighbour of the given rank; the line itself has rank 0. `squares` has room for
   those to all lines. */
static double neighbour_square(const LineSet *set, int64_t line, int rank, double *squares)
{
    int64_t n = set->n;
    const double *p = set->anchor;
    double nearest[SCALE_NEIGHBOUR + 1];
    for (int k = 0; k <= rank; k++)
        nearest[k] = INFINITY;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double x = p[i] - p[line], y = p[n + i] - p[n + line], z = p[2 * n + i] - p[2 * n + line];
        squares[i] = x * x + y * y + z * z;
    }
    for (int64_t i = 0; i < n; i++) {
        double square = squares[i];
        if (!(square < nearest[rank]))
            continue;
        int k = rank;
        for (; k > 0 && nearest[k - 1] > square; k--)
            nearest[k] = nearest[k - 1];
        nearest[k] = square;
    }
    return nearest[rank];
}

static int compare(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* The median over lines of the distance to a neighbour; -1 if there is none. Where a set has fewer lines than the rank
   asks for, padding stands for the rest, if there is any: it is at the centre. */
static double typical_distance(const LineSet *set, int64_t padded_lines, double *distances, double *squares)
{
    int rank = padded_lines - 1 < SCALE_NEIGHBOUR ? (int)padded_lines - 1 : SCALE_NEIGHBOUR;
    double extent = 0;
    for (int64_t i = 0; i < set->n; i++) {
        distances[i] = sqrt(set->n > rank ? neighbour_square(set, i, rank, squares) : set->square[i]);
        extent = set->square[i] > extent ? set->square[i] : extent;
    }
    qsort(distances, set->n, sizeof(double), compare);
    double median = set->n ? distances[(set->n - 1) / 2] : 0;
    return isfinite(median) && median > MIN_SCALE * sqrt(extent) ? median : -1;
}

/* The geometric mean of the typical distances of both maps, or of that which is known. */
static double joint_scale(double source, double target)
{
    double logarithm = (source > 0 ? log(source) : 0) + (target > 0 ? log(target) : 0);
    int known = (source > 0) + (target > 0);
    return known ? exp(logarithm / known) : 1;
}

static void divide_lengths(const LineSet *set, double scale)
{
    for (int64_t i = 0; i < 3 * set->n; i++) {
        set->anchor[i] /= scale;
        set->moment[i] /= scale;
    }
    for (int64_t i = 0; i < set->n; i++) {
        set->along[i] /= scale;
        set->square[i] /= scale * scale;
    }
}

/* Smooth bumps of the logarithm of a length around their centres. */
static void set_bumps(const Encoder *encoder, double length, const float *gain, float *out)
{
    float position = log_of((float)length + encoder->edge_weights.floor) / encoder->spread;
    for (int64_t k = 0; k < encoder->radial; k++) {
        float t = position - encoder->centres[k] / encoder->spread, depth = t * t - 1;
        depth = depth < 0 ? depth : 0;
        out[k] = depth * depth * gain[k];
    }
}

/* Features of single lines: the distance from the centre and, for segments, the length. */
static void set_unary(const Encoder *encoder, const LineSet *set, double scale, float *out, int64_t stride)
{
    for (int64_t i = 0; i < set->n; i++, out += stride) {
        set_bumps(encoder, sqrt(set->square[i]), encoder->gain, out);
        if (!encoder->is_segment) {
            memset(out + encoder->radial, 0, sizeof(float) * encoder->radial);
            continue;
        }
        const double *end = set->points + 6 * i;
        double x = end[3] - end[0], y = end[4] - end[1], z = end[5] - end[2];
        double length = sqrt(x * x + y * y + z * z) / scale;
        set_bumps(encoder, length, encoder->gain + encoder->radial, out + encoder->radial);
    }
}

/* The layers on lines, on some of them at a time: `hidden` and `out` have room for ROWS. */
static void line_layers(const Encoder *encoder, int64_t lines, const float *rows, int64_t stride, float *hidden,
                        float *x)
{
    int64_t c = encoder->channels;
    const float *memory = encoder->line;
    Layer first = next_layer(&memory, stride, 2 * c, 1);
    Norm norm = next_norm(&memory, 2 * c);
    Layer second = next_layer(&memory, 2 * c, c, 1);
    float *out = hidden + ROWS * padded(2 * c);
    for (int64_t start = 0; start < lines; start += ROWS) {
        int64_t count = lines - start < ROWS ? lines - start : ROWS;
        apply_layer(&first, count, rows + start * stride, stride, hidden, padded(2 * c));
        normalize_and_activate(&norm, count, hidden, padded(2 * c));
        apply_layer(&second, count, hidden, padded(2 * c), out, padded(c));
        for (int64_t i = 0; i < count; i++)
            memcpy(x + (start + i) * c, out + i * padded(c), sizeof(float) * c);
    }
}

/* Centres the lines of a set; returns their typical distance. */
static double place_set(const Encoder *encoder, const LineSet *set, const double *direction, int64_t padded_lines,
                        double *distances, double *squares)
{
    for (int64_t i = 0; i < set->n; i++)
        store(set->direction, set->n, i, direction + 3 * i);
    if (encoder->is_segment)
        anchor_segments(set);
    else
        anchor_infinite(set);
    complete(set);
    return encoder->is_joint ? typical_distance(set, padded_lines, distances, squares) : -1;
}

/* Encodes an even number of sets, sources first: set s has the lines from ends[s] to ends[s + 1], of which there are
   at most `padded_lines`. `points` are moments of lines, or both ends of segments. Writes the features (lines, channels)
   to `x` and the edges of each set to edges[s]. Returns 0, or 1 if there is no memory. */
KERNEL int32_t encode_lines(const Encoder *encoder, int64_t sets, const int64_t *ends, int64_t padded_lines,
                            const double *direction, const double *points, float *const *edges, float *x)
{
    int64_t lines = ends[sets], c = encoder->channels, numbers = encoder->is_segment ? 6 : 3;
    EdgeSizes sizes = encoder->edge_sizes;
    int64_t averages = sizes.radii * sizes.width, stride = averages + 2 * encoder->radial;
    double *planes = malloc(sizeof(double) * ((COORDINATES + 2) * lines + sets + 1));
    float *rows = malloc(sizeof(float) * (lines * stride + ROWS * (padded(2 * c) + padded(c))));
    int failed = !planes || !rows;
    double *distances = planes + COORDINATES * lines, *squares = distances + lines, *typical = squares + lines;
    for (int64_t s = 0; s < sets && !failed; s++) {
        LineSet set = set_of(planes + COORDINATES * ends[s], points + numbers * ends[s], ends[s + 1] - ends[s]);
        typical[s] = place_set(encoder, &set, direction + 3 * ends[s], padded_lines, distances, squares);
    }
    for (int64_t s = 0; s < sets && !failed; s++) {
        LineSet set = set_of(planes + COORDINATES * ends[s], points + numbers * ends[s], ends[s + 1] - ends[s]);
        double scale = joint_scale(typical[s % (sets / 2)], typical[s % (sets / 2) + sets / 2]);
        float *own = rows + ends[s] * stride;
        divide_lengths(&set, scale);
        sizes.n = set.n;
        failed = edge_channels(&sizes, &encoder->edge_weights, set.direction, edges[s], own, stride);
        set_unary(encoder, &set, scale, own + averages, stride);
    }
    if (!failed)
        line_layers(encoder, lines, rows, stride, rows + lines * stride, x);
    free(planes);
    free(rows);
    return failed;
}
