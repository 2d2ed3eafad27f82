/* Motions that may map a map onto itself: `_candidates` of estimation/symmetry.py. */
#include "symmetry_motions.h"

#define MIN_SINE 0.05f /* as in geometry/invariants.py */

typedef struct {
    InlierThreshold threshold;
    int64_t prominent_lines, reference_pairs, solved_pairs, max_counterparts;
    double max_length_ratio, separation; /* the latter in inlier distances */
    int64_t max_rotations, directions;
    double min_second_direction;
    double min_trace, max_square; /* of a motion that counts as the identity: above the one, below the other */
} CandidateLimits;

/* A pair of lines that is compared with all pairs. */
typedef struct {
    int64_t row, column, count;
    float cosine, sine, distance, span;
} Reference;

/* Memory of a search. */
typedef struct {
    float *cosine, *sine, *distance, *span; /* of one line with all: geometry/invariants.py */
    float *values, *rotations;
    int64_t *order, *spare, *counterparts;
    int32_t *like;
    Reference *references;
    Motion *motions;
} Workspace;

/* The invariants of line `i` and every line. */
static void compare_with_all(const MapLines *lines, int64_t i, Workspace *space)
{
    float d[3], m[3], a[3];
    vector_of(lines->direction, i, d);
    vector_of(lines->moment, i, m);
    vector_of(lines->anchor, i, a);
    const float *dx = lines->direction[0], *dy = lines->direction[1], *dz = lines->direction[2];
    const float *mx = lines->moment[0], *my = lines->moment[1], *mz = lines->moment[2];
    const float *ax = lines->anchor[0], *ay = lines->anchor[1], *az = lines->anchor[2];
    float *cosines = space->cosine, *sines = space->sine, *distances = space->distance, *spans = space->span;
#pragma omp simd
    for (int64_t j = 0; j < lines->count; j++) {
        float cosine = fabsf(d[0] * dx[j] + d[1] * dy[j] + d[2] * dz[j]);
        cosine = cosine < 1 ? cosine : 1;
        float sine = sqrtf(1 - cosine * cosine);
        float x = ax[j] - a[0], y = ay[j] - a[1], z = az[j] - a[2];
        float along = d[0] * x + d[1] * y + d[2] * z, square = x * x + y * y + z * z;
        float across = square - along * along, parallel = sqrtf(across > 0 ? across : 0);
        float skew = d[0] * mx[j] + d[1] * my[j] + d[2] * mz[j] + m[0] * dx[j] + m[1] * dy[j] + m[2] * dz[j];
        float apart = fabsf(skew) / (sine > MIN_SINE ? sine : MIN_SINE);
        cosines[j] = cosine;
        sines[j] = sine;
        distances[j] = sine > MIN_SINE ? apart : parallel;
        spans[j] = sqrtf(square);
    }
}

/* Distance of the anchor of `j` from line `i`. */
static float anchor_distance(const MapLines *lines, int64_t i, int64_t j)
{
    float d[3], a[3], b[3];
    vector_of(lines->direction, i, d);
    vector_of(lines->anchor, i, a);
    vector_of(lines->anchor, j, b);
    for (int axis = 0; axis < 3; axis++)
        b[axis] -= a[axis];
    float along = dot3(d, b), square = dot3(b, b) - along * along;
    return sqrtf(square > 0 ? square : 0);
}

/* Give a reference the partner that is long, close and, if `crossing`, at a large angle; otherwise some distance away.
   Returns whether there is one. */
static int choose_partner(const MapLines *lines, const CandidateLimits *limits, Workspace *space, Reference *reference,
                          int crossing)
{
    float best = 0, min_sine = (float)(2 * sin(limits->threshold.angle));
    float min_distance = (float)(limits->separation * limits->threshold.distance);
    int64_t row = reference->row, partner = 0;
    compare_with_all(lines, row, space);
    for (int64_t j = 0; j < lines->count; j++) {
        float size = lines->half_length ? lines->half_length[j] : 1;
        float preference = size / (0.1f + space->span[j] * space->span[j]);
        if (crossing)
            preference = j != row && space->sine[j] > min_sine ? preference * space->sine[j] : 0;
        else if (!(anchor_distance(lines, row, j) > min_distance))
            preference = 0;
        if (preference > best) {
            best = preference;
            partner = j;
        }
    }
    *reference = (Reference){row, partner, 0, space->cosine[partner], space->sine[partner],
                             space->distance[partner], space->span[partner]};
    return best > 0;
}

/* Partners of all references; returns whether they are parallel to them. */
static int choose_partners(const MapLines *lines, const CandidateLimits *limits, Workspace *space, int64_t count)
{
    int64_t crossing = 0;
    for (int64_t k = 0; k < count; k++)
        crossing += choose_partner(lines, limits, space, space->references + k, 1);
    if (2 * crossing >= count)
        return 0;
    for (int64_t k = 0; k < count; k++)
        choose_partner(lines, limits, space, space->references + k, 0);
    return 1;
}

/* Whether two segments are about as long. */
static inline int alike_lengths(float half_length, float own, float ratio, float distance)
{
    return ((half_length < ratio * own) & (own < ratio * half_length)) | (fabsf(half_length - own) < 2 * distance);
}

/* Which pairs of line `i`, compared with all, are counterparts of a reference; returns how many. */
static int64_t mark_counterparts(const MapLines *lines, const CandidateLimits *limits, Workspace *space, int64_t i,
                                 const Reference *reference)
{
    const Reference own = *reference;
    const float *cosine = space->cosine, *sine = space->sine, *distance = space->distance, *half = lines->half_length;
    float min_cosine = (float)cos(limits->threshold.angle), max_distance = (float)limits->threshold.distance;
    int32_t count = 0, *like = space->like;
#pragma omp simd reduction(+ : count)
    for (int64_t j = 0; j < lines->count; j++) {
        like[j] = (cosine[j] * own.cosine + sine[j] * own.sine > min_cosine) &
                  (fabsf(distance[j] - own.distance) < max_distance);
        count += like[j];
    }
    if (!half || !count)
        return count;
    float ratio = (float)limits->max_length_ratio, cut = fabsf(half[i] - half[own.row]), other = half[own.column];
    count = 0;
#pragma omp simd reduction(+ : count)
    for (int64_t j = 0; j < lines->count; j++) {
        /* The ends of a segment may be cut; its midpoint then moves by half of that. */
        float apart = fabsf(space->span[j] - own.span) - cut - fabsf(half[j] - other);
        like[j] &= (apart < 2 * max_distance) & alike_lengths(half[j], other, ratio, max_distance);
        count += like[j];
    }
    return count;
}

/* Whether line `i` can be the first of a counterpart. */
static int may_correspond(const MapLines *lines, const CandidateLimits *limits, int64_t i, const Reference *reference)
{
    const float *half = lines->half_length;
    return !half || alike_lengths(half[i], half[reference->row], (float)limits->max_length_ratio,
                                  (float)limits->threshold.distance);
}

static void count_counterparts(const MapLines *lines, const CandidateLimits *limits, Workspace *space, int64_t count)
{
    for (int64_t i = 0; i < lines->count; i++) {
        int compared = 0;
        for (int64_t k = 0; k < count; k++) {
            Reference *reference = space->references + k;
            if (!may_correspond(lines, limits, i, reference))
                continue;
            if (!compared)
                compare_with_all(lines, i, space);
            compared = 1;
            reference->count += mark_counterparts(lines, limits, space, i, reference);
        }
    }
}

/* Keep the references with more counterparts than themselves, the fewest first; returns how many. */
static int64_t keep_repeated(Reference *references, int64_t count)
{
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        Reference reference = references[k];
        if (reference.count <= 1)
            continue;
        int64_t place = kept++;
        for (; place > 0 && references[place - 1].count > reference.count; place--)
            references[place] = references[place - 1];
        references[place] = reference;
    }
    return kept;
}

/* The lines in the order of their distance from line `row`. */
static void sort_by_distance(const MapLines *lines, int64_t row, Workspace *space)
{
    for (int64_t i = 0; i < lines->count; i++) {
        float square = 0;
        for (int axis = 0; axis < 3; axis++) {
            float offset = lines->anchor[axis][i] - lines->anchor[axis][row];
            square += offset * offset;
        }
        space->values[i] = -sqrtf(square);
        space->order[i] = i;
    }
    sort_falling(space->values, space->order, space->spare, lines->count);
}

/* Counterparts `(row, column)` of a reference, those closest to it first; returns how many. */
static int64_t closest_counterparts(const MapLines *lines, const CandidateLimits *limits, Workspace *space,
                                    const Reference *reference)
{
    int64_t found = 0, wanted = limits->max_counterparts;
    sort_by_distance(lines, reference->row, space);
    for (int64_t k = 0; k < lines->count && found < wanted; k++) {
        int64_t i = space->order[k];
        if (!may_correspond(lines, limits, i, reference))
            continue;
        compare_with_all(lines, i, space);
        if (!mark_counterparts(lines, limits, space, i, reference))
            continue;
        for (int64_t j = 0; j < lines->count && found < wanted; j++) {
            if (!space->like[j])
                continue;
            space->counterparts[2 * found] = i;
            space->counterparts[2 * found + 1] = j;
            found++;
        }
    }
    return found;
}

/* The motions of all counterparts of the first references; returns how many. */
static int64_t solve_counterparts(const MapLines *lines, const CandidateLimits *limits, Workspace *space,
                                  int64_t references, int is_parallel)
{
    int64_t count = 0;
    for (int64_t k = 0; k < references; k++) {
        const Reference *reference = space->references + k;
        LinePair given = line_pair(lines, reference->row, reference->column);
        int64_t pairs = closest_counterparts(lines, limits, space, reference);
        for (int64_t p = 0; p < pairs; p++) {
            LinePair image = line_pair(lines, space->counterparts[2 * p], space->counterparts[2 * p + 1]);
            Motion *motions = space->motions + count;
            if (!is_parallel) {
                count += crossing_motions(&given, &image, &limits->threshold, motions);
                continue;
            }
            parallel_motion(&given, &image, 1.0f, motions);
            parallel_motion(&given, &image, -1.0f, motions + 1);
            count += 2;
        }
    }
    return count;
}

static int is_identity(const Motion *motion, const CandidateLimits *limits)
{
    const float *r = motion->rotation, *t = motion->translation;
    return r[0] + r[4] + r[8] > (float)limits->min_trace && dot3(t, t) < (float)limits->max_square;
}

/* All motions of a map that is loaded; returns how many were written. */
static int64_t find_motions(const MapLines *lines, const CandidateLimits *limits, Workspace *space, int64_t references,
                            float *rotation, float *translation)
{
    int is_parallel = choose_partners(lines, limits, space, references);
    count_counterparts(lines, limits, space, references);
    int64_t repeated = keep_repeated(space->references, references), written = 0;
    if (2 * repeated < references) /* each has itself as a counterpart */
        return 0;
    int64_t solved = repeated < limits->solved_pairs ? repeated : limits->solved_pairs;
    int64_t count = solve_counterparts(lines, limits, space, solved, is_parallel);
    CommonRotations common = {limits->threshold.angle, limits->min_second_direction, limits->directions,
                              limits->max_rotations, space->rotations, space->values};
    if (!is_parallel)
        share_rotations(lines, &common, space->motions, count);
    for (int64_t h = 0; h < count; h++) {
        const Motion *motion = space->motions + h;
        if (is_identity(motion, limits))
            continue;
        memcpy(rotation + 9 * written, motion->rotation, sizeof motion->rotation);
        memcpy(translation + 3 * written, motion->translation, sizeof motion->translation);
        written++;
    }
    return written;
}

static int allocate(Workspace *space, int64_t lines, int64_t references, const CandidateLimits *limits)
{
    size_t n = (size_t)lines, counterparts = (size_t)limits->max_counterparts;
    space->cosine = malloc(5 * n * sizeof(float));
    space->order = malloc(2 * n * sizeof(int64_t));
    space->like = malloc(n * sizeof(int32_t));
    space->counterparts = malloc(2 * counterparts * sizeof(int64_t));
    space->rotations = malloc(18 * (size_t)limits->max_rotations * sizeof(float));
    space->references = malloc((size_t)references * sizeof(Reference));
    space->motions = malloc(4 * (size_t)limits->solved_pairs * counterparts * sizeof(Motion));
    if (!space->cosine || !space->order)
        return 0;
    space->sine = space->cosine + n;
    space->distance = space->sine + n;
    space->span = space->distance + n;
    space->values = space->span + n;
    space->spare = space->order + n;
    return space->like && space->counterparts && space->rotations && space->references && space->motions;
}

static void release(Workspace *space)
{
    free(space->cosine);
    free(space->order);
    free(space->like);
    free(space->counterparts);
    free(space->rotations);
    free(space->references);
    free(space->motions);
}

/* Rows of long lines near the centre first; returns 0 without memory. */
static int sort_by_prominence(const GivenLines *given, int64_t *order)
{
    float *prominence = malloc((size_t)given->count * sizeof(float));
    int64_t *spare = malloc((size_t)given->count * sizeof(int64_t));
    for (int64_t i = 0; i < given->count && prominence && spare; i++) {
        const double *anchor = given->anchor + 3 * i;
        float a[3] = {(float)anchor[0], (float)anchor[1], (float)anchor[2]};
        prominence[i] = (given->half_length ? (float)given->half_length[i] : 1) / (1 + dot3(a, a));
        order[i] = i;
    }
    if (prominence && spare)
        sort_falling(prominence, order, spare, given->count);
    int complete = prominence && spare;
    free(prominence);
    free(spare);
    return complete;
}

static int rising(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The most prominent lines in the order of their rows, and which of them the references are. */
static int load_prominent(MapLines *lines, const GivenLines *given, const int64_t *order, int64_t count,
                          Workspace *space, int64_t references)
{
    int64_t *rows = space->order; /* free until counterparts are sorted */
    memcpy(rows, order, (size_t)count * sizeof(int64_t));
    qsort(rows, (size_t)count, sizeof(int64_t), rising);
    for (int64_t k = 0; k < references; k++) {
        int64_t *place = bsearch(order + k, rows, (size_t)count, sizeof(int64_t), rising);
        space->references[k].row = place - rows;
    }
    return load_lines(lines, given, rows, count, 1);
}

/* Motions that take a reference pair of lines to a pair with the same invariants, without the identity. Writes the rows
   of all lines by prominence to `order`, and up to `4 * solved_pairs * max_counterparts` motions; returns how many, or
   -1 without memory. */
KERNEL int64_t symmetry_candidates(const GivenLines *given, const CandidateLimits *limits, int64_t *order,
                                   float *rotation, float *translation)
{
    Workspace space;
    MapLines lines;
    int64_t count = given->count < limits->prominent_lines ? given->count : limits->prominent_lines;
    int64_t references = count < limits->reference_pairs ? count : limits->reference_pairs, written = -1;
    if (count < 1)
        return 0;
    int ready = allocate(&space, count, references, limits) && sort_by_prominence(given, order);
    if (ready && load_prominent(&lines, given, order, count, &space, references)) {
        written = find_motions(&lines, limits, &space, references, rotation, translation);
        free(lines.memory);
    }
    release(&space);
    return written;
}
