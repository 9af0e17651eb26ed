#ifndef MUSTER_COMMON_BASE_MESSAGE_FINGERPRINT_H_
#define MUSTER_COMMON_BASE_MESSAGE_FINGERPRINT_H_

#include <cstdint>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Returns the Fingerprint of a message's bytes, with the entries of maps in the order of their
// keys: equal messages have equal fingerprints.
uint64_t FingerprintOf(const google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MESSAGE_FINGERPRINT_H_
