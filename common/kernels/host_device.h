#ifndef MUSTER_COMMON_KERNELS_HOST_DEVICE_H_
#define MUSTER_COMMON_KERNELS_HOST_DEVICE_H_

// Marks a function that processors and kernels of devices share.
#if defined(__CUDACC__)
#define MUSTER_HOST_DEVICE __host__ __device__
#else
#define MUSTER_HOST_DEVICE
#endif

#endif  // MUSTER_COMMON_KERNELS_HOST_DEVICE_H_
