#ifndef MUSTER_CLIENT_JOB_TEXT_FILL_MESSAGE_H_
#define MUSTER_CLIENT_JOB_TEXT_FILL_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "client/job_text/text_node.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Writes the values of a tree into an empty message's fields, which are told by name (`batch_size`
// or `batchSize`). One value stands for a list of one. A name with nothing after it leaves a value
// as it is, and chooses a group. InvalidArgument: a field is unknown (with the nearest there is),
// or has no value of its type (see StoreValue), or is given twice, or beside another one of the
// same choice; the error begins with `origin` and the place.
absl::Status FillMessage(const TextNode& root, const std::string& origin,
                         google::protobuf::Message& message);

// Writes one value in, as in `optimizer.learning_rate=3e-4`: fields apart by dots, an element of a
// list by its number, as in `model.mlp.hidden[0]=64`; the number of elements adds one. A list of
// values takes the place of all, as in `model.mlp.hidden=[64, 32]`. Errors as above, and also
// where it is no assignment, or its path leads into another choice than the message has made.
absl::Status AssignField(const std::string& assignment, const std::string& origin,
                         google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TEXT_FILL_MESSAGE_H_
