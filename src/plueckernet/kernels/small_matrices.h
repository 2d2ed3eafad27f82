/* Symmetric matrices of the motions of a pose: six by six, row by row. */
#ifndef PLUECKERNET_SMALL_MATRICES_H
#define PLUECKERNET_SMALL_MATRICES_H

#include "kernels.h"

#define MOTIONS 6

/* The lower triangle of Cholesky's factor, from the lower triangle of a matrix; returns whether it is positive definite,
   which it is not with NaN. */
static inline int factorize(const double *matrix, double factor[MOTIONS][MOTIONS])
{
    for (int i = 0; i < MOTIONS; i++)
        for (int j = 0; j <= i; j++) {
            double rest = matrix[MOTIONS * i + j];
            for (int k = 0; k < j; k++)
                rest -= factor[i][k] * factor[j][k];
            if (i == j && !(rest > 0 && rest < INFINITY))
                return 0;
            factor[i][j] = i == j ? sqrt(rest) : rest / factor[j][j];
        }
    return 1;
}

#endif
