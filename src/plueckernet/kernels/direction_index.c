/* Which lines may be within an angle of a direction. */
#include "direction_index.h"

#define MAX_PATCHES 12
#define ANGLES_PER_PATCH 1.5f /* about as many lines are compared as with smaller patches, and fewer are stored */
#define ROUNDING 1e-3f        /* rad */
#define FAR 1e30f             /* where no line is, in thresholds: its square is infinite */

/* The direction in the middle of a patch, and the cosine of the angle within which lines are near one of its own. */
static float patch_cone(int patch, int patches, float angle, float middle[3])
{
    int axis = patch / (patches * patches), u = patch / patches % patches, v = patch % patches;
    float size = 2.0f / (float)patches, corner_cosine = 1;
    float first = ((float)u + 0.5f) * size - 1, second = ((float)v + 0.5f) * size - 1;
    float norm = sqrtf(1 + first * first + second * second);
    middle[axis] = 1 / norm;
    middle[(axis + 1) % 3] = first / norm;
    middle[(axis + 2) % 3] = second / norm;
    for (int corner = 0; corner < 4; corner++) {
        float a = first + (corner & 1 ? 0.5f : -0.5f) * size, b = second + (corner & 2 ? 0.5f : -0.5f) * size;
        float cosine = (1 + first * a + second * b) / (norm * sqrtf(1 + a * a + b * b));
        corner_cosine = cosine < corner_cosine ? cosine : corner_cosine;
    }
    float width = acosf(corner_cosine) + asinf(angle < 1 ? angle : 1) + ROUNDING;
    return width < 1.57f ? cosf(width) : -1;
}

/* The rows of the lines of a patch, one after the other; returns how many. */
static int32_t lines_of_patch(const float middle[3], float least, int64_t count, const float *direction, int32_t *rows)
{
    int32_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        const float *d = direction + 3 * i;
        rows[used] = (int32_t)i;
        used += fabsf(d[0] * middle[0] + d[1] * middle[1] + d[2] * middle[2]) >= least;
    }
    return used;
}

static int fill_columns(DirectionIndex *index, const int32_t *rows, int64_t stride, const float *anchor,
                        const float *direction, const float *half_length, float unit)
{
    int patches = 3 * index->patches * index->patches;
    int64_t total = index->start[patches];
    index->rows = calloc((size_t)total + 1, sizeof(int32_t));
    index->memory = calloc((size_t)(COLUMN_FIELDS * total) + 1, sizeof(float));
    if (!index->rows || !index->memory)
        return 1;
    index->columns = columns_in(index->memory, total);
    for (int patch = 0; patch < patches; patch++) {
        int64_t first = index->start[patch], used = index->used[patch];
        for (int64_t k = 0; k < used; k++) {
            int32_t row = rows[patch * stride + k];
            index->rows[first + k] = row;
            set_column(&index->columns, first + k, anchor + 3 * row, direction + 3 * row,
                       half_length ? half_length[row] : 0, unit);
        }
        static const float nowhere[3] = {FAR, FAR, FAR}, no_direction[3] = {0, 0, 0};
        for (int64_t column = first + used; column < index->start[patch + 1]; column++)
            set_column(&index->columns, column, nowhere, no_direction, 0, 1);
    }
    return 0;
}

int direction_index_build(DirectionIndex *index, int64_t count, const float *anchor, const float *direction,
                          const float *half_length, const Threshold *threshold)
{
    memset(index, 0, sizeof *index);
    int edge = limited(1.5708f / (ANGLES_PER_PATCH * threshold->angle), MAX_PATCHES + 1);
    index->patches = edge < 1 ? 1 : edge;
    int patches = 3 * index->patches * index->patches;
    int64_t stride = count + 1; /* a row is written before it is known whether it counts */
    int32_t *rows = malloc(sizeof(int32_t) * (size_t)(patches * stride));
    index->start = calloc((size_t)patches + 1, sizeof(int64_t));
    index->used = calloc((size_t)patches, sizeof(int32_t));
    int failed = !rows || !index->start || !index->used;
    for (int patch = 0; patch < patches && !failed; patch++) {
        float middle[3], least = patch_cone(patch, index->patches, threshold->angle, middle);
        int32_t used = lines_of_patch(middle, least, count, direction, rows + patch * stride);
        index->used[patch] = used;
        index->most_used = used > index->most_used ? used : index->most_used;
        index->start[patch + 1] = index->start[patch] + padded_count(used);
    }
    failed = failed || fill_columns(index, rows, stride, anchor, direction, half_length, 1 / threshold->distance);
    free(rows);
    return failed;
}

void direction_index_free(DirectionIndex *index)
{
    free(index->start);
    free(index->used);
    free(index->rows);
    free(index->memory);
}
