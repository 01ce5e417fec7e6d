// Marks a formula as callable from CUDA device code too; means nothing elsewhere.
#pragma once

#if defined(__CUDACC__)
#define PLAIT_HD __host__ __device__
#else
#define PLAIT_HD
#endif
