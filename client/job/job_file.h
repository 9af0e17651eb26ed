#ifndef MUSTER_CLIENT_JOB_JOB_FILE_H_
#define MUSTER_CLIENT_JOB_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Name of standard input as a job file.
inline constexpr char kStandardInput[] = "-";

// Parses a job from YAML, JSON or protobuf text format. The ending of `origin` says which (.yaml,
// .yml, .json, .textproto, .pbtxt); otherwise the text does: JSON begins with `{`, and protobuf
// text format has a `{` right after a name. `origin` also names the text in errors. A byte-order
// mark of UTF-8 is skipped. InvalidArgument: says what is wrong, with line and column; the text is
// empty, or UTF-16.
absl::Status ParseJob(const std::string& text, const std::string& origin, v1::JobSpec& spec);

// Reads a job file, or standard input (kStandardInput). Relative paths (of data, tokenizers,
// config.json, folders of weights and a program's working folder) become absolute, since workers
// run elsewhere: they are relative to the file's folder, or for standard input to the working
// directory. NotFound: there is no such file. InvalidArgument: as ParseJob; the path is a folder;
// the file is too large for a job.
absl::Status ReadJobFile(const std::string& path, v1::JobSpec& spec);

// Writes one value into a job, as in "optimizer.learning_rate=3e-4" (AssignField), or for short
// "lr=3e-4" (CompleteAssignment). Returns the assignment with the field's whole path. Relative
// paths are relative to the working directory. InvalidArgument: says what is wrong with the
// assignment.
absl::StatusOr<std::string> SetJobField(const std::string& assignment, v1::JobSpec& spec);

// Puts another path into the data specification: a file or folder; for IDX the images, whose labels
// are found by MNIST's naming. InvalidArgument: the data is synthetic.
absl::Status ReplaceDataPath(const std::string& path, v1::JobSpec& spec);

// Keeps the documents of sequences apart where the job does not say whether they see one another
// (v1::SequenceData::Packing).
void FillPacking(v1::JobSpec& spec);

// Returns the paths of data that are not on this machine. Patterns are not checked.
std::vector<std::string> MissingData(const v1::JobSpec& spec);

// Fills the transformer's fields that the job leaves out from the config.json that
// model.transformer.from names, and clears `from`. Returns what the user should know of them
// (ConfigNote), or nothing. NotFound: there is no such file. InvalidArgument: Muster does not
// compute this model (ParseTransformerConfig).
absl::StatusOr<std::string> ReadModelConfig(v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_JOB_FILE_H_
