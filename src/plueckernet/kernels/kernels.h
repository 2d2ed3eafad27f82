/* Shared by all kernels. Arrays are contiguous, lines and poses one after the other. */
#ifndef PLUECKERNET_KERNELS_H
#define PLUECKERNET_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define KERNEL __declspec(dllexport)
#else
#define KERNEL __attribute__((visibility("default")))
#endif

#endif
