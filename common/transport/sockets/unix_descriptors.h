#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_UNIX_DESCRIPTORS_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_UNIX_DESCRIPTORS_H_

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/transport/descriptor.h"

namespace muster {

// Most descriptors that travel with one message.
constexpr size_t kMaxDescriptors = 4;

// Call sendmsg and recvmsg on a unix socket, with descriptors (SCM_RIGHTS) beside the bytes,
// without blocking, and return the system call's result. Descriptors arrive with the first byte
// that was sent with them.
ssize_t SendWithDescriptors(int socket, absl::Span<const char> bytes,
                            absl::Span<const int> descriptors);
ssize_t ReceiveWithDescriptors(int socket, absl::Span<char> out,
                               std::vector<Descriptor>& descriptors);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_UNIX_DESCRIPTORS_H_
