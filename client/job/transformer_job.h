#ifndef MUSTER_CLIENT_JOB_TRANSFORMER_JOB_H_
#define MUSTER_CLIENT_JOB_TRANSFORMER_JOB_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cluster/job_client.h"

namespace muster {

namespace v1 {
class CheckpointRequest;
class DataSpec;
class JobSpec;
}  // namespace v1

class Tokenizer;

// Calls `sink` with consecutive parts of a safetensors file of a job checkpoint's weights. The file
// of a transformer says what the model is and how its tokens are made, so that it can be used
// without the job. `tokenizer` says where the model's tokenizer is; if empty, the job says where.
// If the tokenizer is not on this machine, the file does not have it, and `note` is called with the
// reason. InvalidArgument: the checkpoint was made with another tokenizer.
absl::Status ExportJob(JobClient& jobs, const v1::CheckpointRequest& checkpoint,
                       const std::string& tokenizer,
                       const std::function<void(const std::string&)>& note,
                       const std::function<absl::Status(absl::string_view)>& sink);

// Returns the folder that a job's data name for a chat template, or that of their tokenizer. Empty:
// they name neither, such as a token file.
std::string ChatFolderOf(const v1::DataSpec& data);

// InvalidArgument if the job's model is not a transformer; names the job, its model and
// `asked_for`.
absl::Status RequireTransformer(const v1::JobSpec& spec, const std::string& job_id,
                                absl::string_view asked_for);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TRANSFORMER_JOB_H_
