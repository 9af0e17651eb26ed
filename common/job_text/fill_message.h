#ifndef MUSTER_COMMON_JOB_TEXT_FILL_MESSAGE_H_
#define MUSTER_COMMON_JOB_TEXT_FILL_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "common/job_text/text_node.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Writes the values of a tree into the fields of an empty message. Fields are named as `batch_size`
// or `batchSize`. A single value is a list of one where a list is expected. A map's names are
// written as a group's fields, or in protobuf's text format as `key` and `value` of each entry. A
// name without a value leaves a value as it is, and selects a group. InvalidArgument, beginning
// with `origin` and the place: a field is unknown (names the nearest one), has no value of its type
// (see StoreValue), is given twice, or is given beside another field of the same oneof.
absl::Status FillMessage(const TextNode& root, const std::string& origin,
                         google::protobuf::Message& message);

// Writes one value, as in `optimizer.learning_rate=3e-4`. Dots separate fields; a number selects a
// list's element, as in `model.mlp.hidden[0]=64`, and the number of elements appends one. A list
// replaces the whole list, as in `model.mlp.hidden=[64, 32]`; `labels.team=vision` sets one name of
// a map; a group in braces replaces a whole message, as in `optimizer={name: sgd, learning_rate:
// 0.1}`. Errors as above, and if the text is not an assignment, or its path leads into another
// choice of a oneof than the message has made.
absl::Status AssignField(const std::string& assignment, const std::string& origin,
                         google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_FILL_MESSAGE_H_
