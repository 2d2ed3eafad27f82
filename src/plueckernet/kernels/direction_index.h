/* Lines by their directions: for every patch of directions the lines within an angle of one of its directions. */
#ifndef PLUECKERNET_DIRECTION_INDEX_H
#define PLUECKERNET_DIRECTION_INDEX_H

#include "line_columns.h"

typedef struct {
    int patches;       /* along an edge of a face of a cube */
    int64_t *start;    /* of the columns of each patch */
    int32_t *used;     /* columns of each patch; those up to a multiple of LANES are too far away for any residual */
    int32_t *rows;     /* of the line in each column */
    int32_t most_used; /* columns of a patch */
    LineColumns columns;
    float *memory;
} DirectionIndex;

/* Returns 0, or 1 if there was no memory. Infinite lines have no half lengths. */
int direction_index_build(DirectionIndex *index, int64_t count, const float *anchor, const float *direction,
                          const float *half_length, const Threshold *threshold);
void direction_index_free(DirectionIndex *index);

static inline int limited(float value, int count)
{
    value = value > 0 ? value : 0; /* also of NaN */
    value = value < (float)(count - 1) ? value : (float)(count - 1);
    return (int)value;
}

/* Where the line of a direction passes through the faces of a cube; opposite directions have the same patch. */
static inline int direction_patch(float x, float y, float z, int patches)
{
    float ax = fabsf(x), ay = fabsf(y), az = fabsf(z), main = z, first = x, second = y;
    int is_y = ay >= az, is_x = (ax >= ay) & (ax >= az), axis = 2; /* one after the other, without branches */
    main = is_y ? y : main;
    first = is_y ? z : first;
    second = is_y ? x : second;
    axis = is_y ? 1 : axis;
    main = is_x ? x : main;
    first = is_x ? y : first;
    second = is_x ? z : second;
    axis = is_x ? 0 : axis;
    float scale = 0.5f * (float)patches;
    int u = limited((first / main + 1) * scale, patches), v = limited((second / main + 1) * scale, patches);
    return (axis * patches + u) * patches + v;
}

#endif
