/* The covariance of a pose: inverse_information() of estimation/gauss_newton.py. */
#include "small_matrices.h"

/* The inverse of a matrix whose factor is given. */
static void invert_factorized(double factor[MOTIONS][MOTIONS], double *inverse)
{
    double lower[MOTIONS][MOTIONS] = {{0}}; /* the inverse of the factor */
    for (int j = 0; j < MOTIONS; j++)
        for (int i = j; i < MOTIONS; i++) {
            double rest = i == j;
            for (int k = j; k < i; k++)
                rest -= factor[i][k] * lower[k][j];
            lower[i][j] = rest / factor[i][i];
        }
    for (int i = 0; i < MOTIONS; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = i; k < MOTIONS; k++)
                sum += lower[k][i] * lower[k][j];
            inverse[MOTIONS * i + j] = inverse[MOTIONS * j + i] = sum;
        }
}

/* The inverse of the information, if all eigenvalues exceed `least` after it was scaled to a unit diagonal. Returns 0,
   or 1 if a motion is not determined. */
KERNEL int inverse_information(const double *information, double least, double *covariance)
{
    double scaled[MOTIONS * MOTIONS], reduced[MOTIONS * MOTIONS], factor[MOTIONS][MOTIONS], scale[MOTIONS];
    for (int i = 0; i < MOTIONS; i++) {
        double diagonal = information[(MOTIONS + 1) * i];
        scale[i] = 1 / sqrt(diagonal > 1e-300 ? diagonal : 1e-300);
    }
    for (int i = 0; i < MOTIONS; i++)
        for (int j = 0; j < MOTIONS; j++) {
            scaled[MOTIONS * i + j] = information[MOTIONS * i + j] * scale[i] * scale[j];
            reduced[MOTIONS * i + j] = scaled[MOTIONS * i + j] - (i == j ? least : 0);
        }
    if (!factorize(reduced, factor) || !factorize(scaled, factor))
        return 1;
    invert_factorized(factor, covariance);
    for (int i = 0; i < MOTIONS; i++)
        for (int j = 0; j < MOTIONS; j++)
            covariance[MOTIONS * i + j] *= scale[i] * scale[j];
    return 0;
}
