/* How many lines of two maps poses explain: MapScorer of estimation/verification.py. */
#include "line_grid.h"
#include "occupancy.h"

#define PARTNER_FIELDS 8 /* anchor, direction, half length, weight: half a line of the cache */

/* One map: the lines that are counted, and its lines as partners of those of the other map. */
typedef struct {
    int64_t count;
    int segments;
    Threshold threshold;
    float *lines;         /* PARTNER_FIELDS numbers of each that is counted */
    float *partners;      /* the same of each segment that may be a partner */
    DirectionIndex index; /* of infinite lines, which are partners themselves */
    LineGrid grid;        /* of segments */
    Occupancy *occupancy;
} MapSide;

static float *copied_lines(int64_t count, const float *anchor, const float *direction, const float *half_length)
{
    float *lines = calloc((size_t)(PARTNER_FIELDS * count) + 1, sizeof(float));
    for (int64_t i = 0; lines && i < count; i++) {
        float *line = lines + PARTNER_FIELDS * i;
        memcpy(line, anchor + 3 * i, 3 * sizeof(float));
        memcpy(line + 3, direction + 3 * i, 3 * sizeof(float));
        line[6] = half_length ? half_length[i] : 0;
        line[7] = 1;
    }
    return lines;
}

/* The weight of each line: one over the number of lines in its bundle, scaled to a mean of one. */
static int set_weights(MapSide *side, const float *anchor, const float *direction, const float *half_length,
                       const Threshold *bundle)
{
    static const float turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, shift[3] = {0, 0, 0};
    DirectionIndex index;
    float *square = NULL;
    int failed = direction_index_build(&index, side->count, anchor, direction, half_length, bundle);
    if (!failed) {
        square = malloc(sizeof(float) * (size_t)(padded_count(index.most_used) + 1));
        failed = !square;
    }
    double sum = 0;
    for (int64_t i = 0; i < side->count && !failed; i++) {
        const float *d = direction + 3 * i;
        MovedLine line = moved_line(turn, shift, anchor + 3 * i, d, half_length[i], 1 / bundle->distance);
        int patch = direction_patch(d[0], d[1], d[2], index.patches);
        int32_t used = index.used[patch], size = 0;
        residual_row(&line, &index.columns, index.start[patch], used, bundle, 1, square);
#pragma omp simd reduction(+ : size)
        for (int32_t j = 0; j < used; j++)
            size += square[j] < 1;
        float weight = 1 / (float)(size > 1 ? size : 1);
        side->lines[PARTNER_FIELDS * i + 7] = weight;
        sum += (double)weight;
    }
    for (int64_t i = 0; i < side->count && !failed; i++)
        side->lines[PARTNER_FIELDS * i + 7] /= (float)(sum / (double)side->count);
    direction_index_free(&index);
    free(square);
    return failed;
}

KERNEL void map_side_free(MapSide *side)
{
    if (!side)
        return;
    direction_index_free(&side->index);
    line_grid_free(&side->grid);
    free(side->lines);
    free(side->partners);
    free(side->occupancy);
    free(side);
}

/* A map; infinite lines have no half lengths, and are partners themselves. NULL if there was no memory. */
KERNEL MapSide *map_side_new(int64_t count, const float *anchor, const float *direction, const float *half_length,
                             int64_t partner_count, const float *partner_anchor, const float *partner_direction,
                             const float *partner_half_length, double distance, double angle, int directed,
                             double bundle_distance, double occupancy_size)
{
    MapSide *side = calloc(1, sizeof(MapSide));
    if (!side)
        return NULL;
    side->count = count;
    side->segments = half_length != NULL;
    side->threshold = (Threshold){(float)distance, (float)angle, 0, directed};
    side->lines = copied_lines(count, anchor, direction, half_length);
    int failed = !side->lines;
    if (!failed && !side->segments)
        failed = direction_index_build(&side->index, count, anchor, direction, NULL, &side->threshold);
    if (!failed && side->segments) {
        const float *half = partner_half_length;
        Threshold bundle = {(float)bundle_distance, (float)angle, 0, 0};
        side->partners = copied_lines(partner_count, partner_anchor, partner_direction, half);
        side->occupancy = malloc(sizeof(Occupancy));
        failed = !side->partners || !side->occupancy || set_weights(side, anchor, direction, half_length, &bundle) ||
                 line_grid_build(&side->grid, partner_count, partner_anchor, partner_direction, half, distance, angle);
        if (!failed)
            occupancy_build(side->occupancy, partner_count, partner_anchor, partner_direction, half,
                            (float)occupancy_size);
    }
    if (!failed)
        return side;
    map_side_free(side);
    return NULL;
}

/* Some lines of a map, spread evenly, in columns, and what becomes of them under one pose. */
typedef struct {
    int64_t count, padded;
    LineColumns lines;
    float *weight;
    LineColumns moved; /* its half lengths are not used */
    uint32_t *cell;    /* in the grid of the other map */
    int32_t *covered;  /* cells of three points in the occupancy of the other map, one point after the other */
    int32_t *occupied; /* lines in cells of the grid that are not empty */
    int32_t *begin, *end; /* of the rows in the cell of each of them */
    float *square;
} Sample;

static int sample_lines(Sample *sample, const MapSide *side, int64_t count, int64_t other_count)
{
    int64_t padded = padded_count(count), fields = 2 * COLUMN_FIELDS + 8;
    sample->count = count;
    sample->padded = padded;
    float *memory = calloc((size_t)(fields * padded + padded_count(other_count) + 1), sizeof(float));
    if (!memory)
        return 1;
    sample->lines = columns_in(memory, padded);
    sample->moved = columns_in(memory + COLUMN_FIELDS * padded, padded);
    sample->weight = memory + 2 * COLUMN_FIELDS * padded;
    sample->cell = (uint32_t *)(sample->weight + padded);
    sample->covered = (int32_t *)(sample->weight + 2 * padded);
    sample->occupied = sample->covered + 3 * padded;
    sample->begin = sample->occupied + padded;
    sample->end = sample->begin + padded;
    sample->square = sample->weight + 8 * padded;
    for (int64_t k = 0; k < count; k++) {
        const float *line = side->lines + PARTNER_FIELDS * (k * side->count / count);
        set_column(&sample->lines, k, line, line + 3, line[6], 1);
        sample->weight[k] = line[7];
    }
    return 0;
}

static void move_sample(Sample *sample, const float *r, const float *t)
{
    LineColumns from = sample->lines, to = sample->moved;
#pragma omp simd
    for (int64_t k = 0; k < sample->padded; k++) {
        float x = from.x[k], y = from.y[k], z = from.z[k], dx = from.dx[k], dy = from.dy[k], dz = from.dz[k];
        to.x[k] = r[0] * x + r[1] * y + r[2] * z + t[0];
        to.y[k] = r[3] * x + r[4] * y + r[5] * z + t[1];
        to.z[k] = r[6] * x + r[7] * y + r[8] * z + t[2];
        to.dx[k] = r[0] * dx + r[1] * dy + r[2] * dz;
        to.dy[k] = r[3] * dx + r[4] * dy + r[5] * dz;
        to.dz[k] = r[6] * dx + r[7] * dy + r[8] * dz;
    }
}

/* The cells of moved segments in the grid and in the occupancy of the other map. */
static void find_cells(Sample *sample, const MapSide *other)
{
    LineColumns moved = sample->moved;
    const float *half = sample->lines.half;
    int32_t *covered = sample->covered;
    const float size = other->grid.cell_size;
    const int patches = other->grid.patches;
    const uint32_t mask = other->grid.mask;
    const Occupancy *occupancy = other->occupancy;
    int64_t padded = sample->padded;
#pragma omp simd
    for (int64_t k = 0; k < padded; k++) {
        uint32_t cube = cube_number(floored(moved.x[k] / size), floored(moved.y[k] / size), floored(moved.z[k] / size));
        sample->cell[k] = cell_number(cube, direction_patch(moved.dx[k], moved.dy[k], moved.dz[k], patches)) & mask;
    }
    for (int point = 0; point < 3; point++)
#pragma omp simd
        for (int64_t k = 0; k < padded; k++) {
            float arm = (float)(point - 1) * (half[k] / 2);
            covered[point * padded + k] = occupancy_cell(occupancy, moved.x[k] + moved.dx[k] * arm,
                                                         moved.y[k] + moved.dy[k] * arm, moved.z[k] + moved.dz[k] * arm);
        }
}

/* How well a moved segment fits the best of some lines: 1 - r^2, or 0. */
static float best_fit(const Sample *sample, int32_t k, const MapSide *other, const int32_t *rows, int32_t count)
{
    const LineColumns *moved = &sample->moved;
    const float x = moved->x[k], y = moved->y[k], z = moved->z[k], half = sample->lines.half[k];
    const float dx = moved->dx[k], dy = moved->dy[k], dz = moved->dz[k];
    const float distance = other->threshold.distance, angle = other->threshold.angle;
    const float distance_weight = 1 / (distance * distance), angle_weight = 1 / (angle * angle);
    float best = 0;
    for (int32_t j = 0; j < count; j++) {
        const float *line = other->partners + PARTNER_FIELDS * (int64_t)rows[j];
        float ox = x - line[0], oy = y - line[1], oz = z - line[2];
        float along = ox * line[3] + oy * line[4] + oz * line[5];
        float cosine = dx * line[3] + dy * line[4] + dz * line[5];
        float across = ox * ox + oy * oy + oz * oz - along * along, gap = fabsf(along) - line[6] - half;
        across = across < 0 ? 0 : across;
        gap = gap < 0 ? 0 : gap;
        float fit = 1 - (across + gap * gap) * distance_weight - (1 - cosine * cosine) * angle_weight;
        fit = other->threshold.directed && cosine < 0 ? 0 : fit;
        best = fit > best ? fit : best;
    }
    return best;
}

/* The lines in cells that are not empty, and the rows of these cells; returns how many lines. All lines are looked up
   before any of them is compared, so that the memory is not waited for line by line. */
static int32_t find_occupied(Sample *sample, const LineGrid *grid)
{
    int32_t count = 0;
    for (int32_t k = 0; k < sample->count; k++) {
        sample->occupied[count] = k;
        count += has_lines(grid, sample->cell[k]);
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t cell = occupied_place(grid, sample->cell[sample->occupied[i]]);
        sample->begin[i] = grid->start[cell];
        sample->end[i] = grid->start[cell + 1];
        __builtin_prefetch(grid->rows + sample->begin[i]);
    }
    return count;
}

static float coverage(const Sample *sample, int64_t k, const Occupancy *occupancy)
{
    const int32_t *cell = sample->covered + k;
    int64_t next = sample->padded;
    int inside = is_occupied(occupancy, cell[0]) + is_occupied(occupancy, cell[next]) +
                 is_occupied(occupancy, cell[2 * next]);
    return (float)inside * (1.0f / 3);
}

/* Segments of a sample that a pose explains, and how many are expected to be: those that are covered or fit. */
static void count_segments(Sample *sample, const float *rotation, const float *translation, const MapSide *other,
                           float *explained, float *expected)
{
    double fits = 0, covers = 0;
    move_sample(sample, rotation, translation);
    find_cells(sample, other);
    for (int64_t k = 0; k < sample->count; k++)
        covers += (double)(coverage(sample, k, other->occupancy) * sample->weight[k]);
    int32_t count = find_occupied(sample, &other->grid);
    for (int32_t i = 0; i < count; i++) {
        int32_t k = sample->occupied[i], begin = sample->begin[i];
        float fit = best_fit(sample, k, other, other->grid.rows + begin, sample->end[i] - begin);
        float more = fit - coverage(sample, k, other->occupancy);
        fits += (double)(fit * sample->weight[k]);
        covers += more > 0 ? (double)(more * sample->weight[k]) : 0;
    }
    *explained = (float)fits;
    *expected = (float)covers;
}

static float fit_of(float square)
{
    return square < 1 ? 1 - (square > 0 ? square : 0) : 0;
}

/* Lower the best squares of some lines. Only those below one count, and most groups of lines have none. */
static void keep_best(const float *square, const int32_t *rows, int32_t count, float *best)
{
    for (int32_t start = 0; start < count; start += LANES) {
        if (!(smallest(square + start, LANES) < 1))
            continue;
        for (int32_t j = start; j < start + LANES && j < count; j++)
            if (square[j] < best[rows[j]])
                best[rows[j]] = square[j];
    }
}

/* The patches of moved lines in the directions of the other map. */
static void find_patches(Sample *sample, const DirectionIndex *index)
{
    LineColumns moved = sample->moved;
    const int patches = index->patches;
#pragma omp simd
    for (int64_t k = 0; k < sample->padded; k++)
        sample->cell[k] = (uint32_t)direction_patch(moved.dx[k], moved.dy[k], moved.dz[k], patches);
}

/* The least squared residual of a moved line and lines of a patch, those that fill its last lanes included; all of them
   go to `square`, unless that is NULL. What is constant where this is called decides which loop there is. */
static inline __attribute__((always_inline)) float least_of_patch(const MovedLine *line, const DirectionIndex *index,
                                                                   uint32_t patch, const Threshold *threshold,
                                                                   float *square, int special)
{
    const MovedLine a = *line;
    const LineColumns columns = index->columns;
    const Threshold limit = *threshold;
    const float weight = angle_weight(threshold);
    int64_t first = index->start[patch], count = index->start[patch + 1] - first;
    float least = INFINITY;
#pragma omp simd reduction(min : least)
    for (int64_t j = 0; j < count; j++) {
        float value = pair_square(&a, &columns, first + j, &limit, weight, 0, special);
        least = value < least ? value : least;
        if (square)
            square[j] = value;
    }
    return least;
}

/* Infinite lines of a sample that a pose explains; if `other_best` is there, it becomes the squared residual of each
   line of the other map and its best partner in the sample. */
static inline __attribute__((always_inline)) float count_infinite_of_kind(Sample *sample, const MapSide *other,
                                                                           float *other_best, int special)
{
    const DirectionIndex *index = &other->index;
    const float unit = 1 / other->threshold.distance;
    LineColumns moved = sample->moved;
    double fits = 0;
    for (int64_t k = 0; k < sample->count; k++) {
        MovedLine line = {moved.x[k] * unit, moved.y[k] * unit, moved.z[k] * unit,
                          moved.dx[k],       moved.dy[k],       moved.dz[k],       0};
        uint32_t patch = sample->cell[k];
        float *square = other_best ? sample->square : NULL;
        float least = least_of_patch(&line, index, patch, &other->threshold, square, special);
        fits += (double)fit_of(least);
        if (other_best && least < 1)
            keep_best(square, index->rows + index->start[patch], index->used[patch], other_best);
    }
    return (float)fits;
}

static float count_infinite(Sample *sample, const float *rotation, const float *translation, const MapSide *other,
                            float *other_best)
{
    move_sample(sample, rotation, translation);
    find_patches(sample, &other->index);
    if (is_special(&other->threshold))
        return other_best ? count_infinite_of_kind(sample, other, other_best, 1)
                          : count_infinite_of_kind(sample, other, NULL, 1);
    return other_best ? count_infinite_of_kind(sample, other, other_best, 0)
                      : count_infinite_of_kind(sample, other, NULL, 0);
}

static void invert(const float *r, const float *t, float rotation[9], float translation[3])
{
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            rotation[3 * i + j] = r[3 * j + i];
        translation[i] = -(r[i] * t[0] + r[3 + i] * t[1] + r[6 + i] * t[2]);
    }
}

/* The lines of both maps under one pose; `sums` are explained and expected lines of the source and of the target. */
static void count_lines(Sample samples[2], const MapSide *sides[2], const float *r, const float *t, float *other_best,
                        float sums[4])
{
    float inverse[9], shift[3];
    invert(r, t, inverse, shift);
    if (sides[0]->segments) {
        count_segments(&samples[0], r, t, sides[1], &sums[0], &sums[2]);
        count_segments(&samples[1], inverse, shift, sides[0], &sums[1], &sums[3]);
        return;
    }
    for (int64_t j = 0; other_best && j < sides[1]->count; j++)
        other_best[j] = INFINITY;
    sums[0] = count_infinite(&samples[0], r, t, sides[1], other_best);
    double fits = 0;
    for (int64_t j = 0; other_best && j < sides[1]->count; j++)
        fits += (double)fit_of(other_best[j]);
    sums[1] = other_best ? (float)fits : count_infinite(&samples[1], inverse, shift, sides[0], NULL);
}

/* Sums over some lines of each map, spread evenly: explained lines of the source, of the target, and expected ones, of
   all poses each. Nothing is expected of infinite lines. Where all of them count, one comparison tells both sides.
   Returns 0, or 1 if there was no memory. */
KERNEL int map_sides_explained(const MapSide *source, const MapSide *target, int64_t poses, const float *rotation,
                               const float *translation, int64_t source_count, int64_t target_count, float *sums)
{
    const MapSide *sides[2] = {source, target};
    Sample samples[2] = {{0}, {0}};
    int both = !source->segments && source_count == source->count && target_count == target->count;
    float *other_best = both ? malloc(sizeof(float) * (size_t)(target->count + 1)) : NULL;
    int failed = sample_lines(&samples[0], source, source_count, target->index.most_used) ||
                 sample_lines(&samples[1], target, target_count, source->index.most_used) || (both && !other_best);
    for (int64_t h = 0; h < poses && !failed; h++) {
        float counted[4] = {0, 0, 0, 0};
        count_lines(samples, sides, rotation + 9 * h, translation + 3 * h, other_best, counted);
        for (int k = 0; k < 4; k++)
            sums[k * poses + h] = counted[k];
    }
    free(samples[0].lines.x);
    free(samples[1].lines.x);
    free(other_best);
    return failed;
}

/* How well each segment of a map fits the best of the other under each pose, 1 - r^2 or 0, and which fraction of it lies
   where the other map has segments; a row for each pose. Returns 0, or 1 if there was no memory. */
KERNEL int map_side_fits(const MapSide *side, const MapSide *other, int64_t poses, const float *rotation,
                         const float *translation, float *fits, float *covered)
{
    Sample sample = {0};
    int failed = sample_lines(&sample, side, side->count, 0);
    for (int64_t h = 0; h < poses && !failed; h++) {
        float *fit = fits + h * side->count;
        move_sample(&sample, rotation + 9 * h, translation + 3 * h);
        find_cells(&sample, other);
        for (int64_t k = 0; k < side->count; k++) {
            fit[k] = 0;
            covered[h * side->count + k] = coverage(&sample, k, other->occupancy);
        }
        int32_t count = find_occupied(&sample, &other->grid);
        for (int32_t i = 0; i < count; i++) {
            int32_t k = sample.occupied[i], begin = sample.begin[i];
            fit[k] = best_fit(&sample, k, other, other->grid.rows + begin, sample.end[i] - begin);
        }
    }
    free(sample.lines.x);
    return failed;
}
