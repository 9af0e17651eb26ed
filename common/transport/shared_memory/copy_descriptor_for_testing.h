#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_COPY_DESCRIPTOR_FOR_TESTING_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_COPY_DESCRIPTOR_FOR_TESTING_H_

#include <fcntl.h>

#include "common/transport/descriptor.h"

namespace muster {

// Returns another descriptor of the same file, as a peer gets it.
inline Descriptor CopyDescriptor(int descriptor) {
  return Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_COPY_DESCRIPTOR_FOR_TESTING_H_
