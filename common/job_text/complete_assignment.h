#ifndef MUSTER_COMMON_JOB_TEXT_COMPLETE_ASSIGNMENT_H_
#define MUSTER_COMMON_JOB_TEXT_COMPLETE_ASSIGNMENT_H_

#include <string>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Returns an assignment for AssignField with the whole path of its field: for `learning_rate=0.1`,
// and for `lr=0.1`, `optimizer.learning_rate=0.1`. A path is completed if it is the end of the path
// of just one field that the message can have, after the choices that it has made in its oneofs.
// `lr` and `batch` are short for learning_rate and batch_size. A path that no field's path ends in
// comes back as it is, for AssignField to refuse. InvalidArgument, beginning with `origin`: several
// fields' paths end in it; the message names them.
absl::StatusOr<std::string> CompleteAssignment(const std::string& assignment,
                                               const std::string& origin,
                                               const google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_COMPLETE_ASSIGNMENT_H_
