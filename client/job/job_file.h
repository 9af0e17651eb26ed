#ifndef MUSTER_CLIENT_JOB_JOB_FILE_H_
#define MUSTER_CLIENT_JOB_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Names standard input as a job file.
inline constexpr char kStandardInput[] = "-";

// Parses a job from text: YAML, JSON or protobuf's text format, as the ending of `origin` says
// (.yaml, .yml, .json, .textproto, .pbtxt), or else the text: JSON begins with `{`, and protobuf's
// text format has a `{` right after a name. `origin` also names the text in errors. A byte-order
// mark of UTF-8 is skipped. InvalidArgument: line, column and what is wrong there; the text is
// empty, or UTF-16.
absl::Status ParseJob(const std::string& text, const std::string& origin, v1::JobSpec& spec);

// Reads a job file, or standard input (kStandardInput). Relative paths (of data, tokenizers,
// config.json and folders of weights) are taken from the file's folder, or for standard input the
// working directory, and made absolute, as the workers run elsewhere. NotFound: no such file.
// InvalidArgument: as ParseJob; it is a folder, or too large for a job.
absl::Status ReadJobFile(const std::string& path, v1::JobSpec& spec);

// Writes one value into a job, as in "optimizer.learning_rate=3e-4" (AssignField). Relative paths
// are taken from the working directory, as those on a command line are. InvalidArgument: what is
// wrong with it.
absl::Status SetJobField(const std::string& assignment, v1::JobSpec& spec);

// Puts another path (a file or folder; for IDX the images, whose labels are found by MNIST's
// naming) into the data specification. InvalidArgument: the data is synthetic.
absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec);

// The paths of data (patterns left out) that are not on this machine.
std::vector<std::string> MissingData(const v1::JobSpec& spec);

// Fills a transformer's fields that the job leaves out with those of the config.json that
// model.transformer.from names, which is then cleared. NotFound, InvalidArgument: there is none,
// or it is of a model that Muster does not compute (ParseTransformerConfig).
absl::Status ReadModelConfig(v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_JOB_FILE_H_
