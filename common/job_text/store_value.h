#ifndef MUSTER_COMMON_JOB_TEXT_STORE_VALUE_H_
#define MUSTER_COMMON_JOB_TEXT_STORE_VALUE_H_

#include "absl/status/status.h"
#include "common/job_text/text_node.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace muster {

// Sets a field of a message, or adds an element to a repeated one, from a written value:
//
//   numbers     3, 3e-4, 1e6 (a whole number where one is expected); quotes do not matter
//   *_bytes     also with a unit: 64k, 512 MiB, 1GiB; k, kB and KiB all mean 1024, as in flags
//   true, false also yes and no, on and off
//   enums       in any case, with '-' for '_': all_reduce, ALL_REDUCE, all-reduce
//   texts       as they are; in quotes, where the notation has them
//
// InvalidArgument says what is expected, as in "expected a whole number from 0 to 4294967295".
// REQUIRES: the node is a kValue, and the field is not a message.
absl::Status StoreValue(const TextNode& node, const google::protobuf::FieldDescriptor& field,
                        google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_STORE_VALUE_H_
