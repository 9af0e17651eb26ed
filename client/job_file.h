#ifndef MUSTER_CLIENT_JOB_FILE_H_
#define MUSTER_CLIENT_JOB_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Parses a job from text: JSON if its first character is `{`, otherwise protobuf's text format.
// `origin` names it in errors. InvalidArgument: line, column and what is wrong there.
absl::Status ParseJob(const std::string& text, const std::string& origin, v1::JobSpec& spec);

// Reads a job file. Relative data paths are taken from the file's folder and made absolute, as the
// workers run elsewhere. NotFound: no such file.
absl::Status ReadJobFile(const std::string& path, v1::JobSpec& spec);

// Puts another path (a file or folder; for IDX the images, whose labels are found by MNIST's
// naming) into the data specification. InvalidArgument: the data is synthetic.
absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_FILE_H_
