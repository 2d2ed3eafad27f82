/* The layers on edges, for the encoder. */
#ifndef PLUECKERNET_EDGES_H
#define PLUECKERNET_EDGES_H

#include "dense.h"

#define COORDINATES 11 /* of a line: direction, anchor, moment, direction . anchor, anchor . anchor */

typedef struct {
    int64_t n, channels, filters, width, radii, is_signed; /* width: channels of an edge, a multiple of 16 */
} EdgeSizes;

typedef struct {
    float lowest, steps, floor, half_weight; /* logarithm of the first row, rows for e; added to lengths; of the gap */
    const float *tables, *second, *second_bias, *head, *constants, *decay;
} EdgeWeights;

/* The channels (channels, n, n) of a set, biases of all layers, then filters, and the averages (radii, width) around
   each of its lines. `lines` are planes of coordinates. Returns 0, or 1 if there is no memory. */
int edge_channels(const EdgeSizes *sizes, const EdgeWeights *weights, const double *lines, float *out, float *pooled,
                  int64_t pooled_stride);

#endif
