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

// Calls `sink` with the weights of a job's checkpoint as a safetensors file, some at a time.
// That of a transformer says what it is and how its tokens are made, so that it can be used without
// the job. `tokenizer` names where its tokenizer is (empty: where the job says; if it is not there
// on this machine, the file does not say, and `note` is called with the reason). InvalidArgument:
// the checkpoint tells that it is another one.
absl::Status ExportJob(JobClient& jobs, const v1::CheckpointRequest& checkpoint,
                       const std::string& tokenizer,
                       const std::function<void(const std::string&)>& note,
                       const std::function<absl::Status(absl::string_view)>& sink);

// Refuses a job of another model. InvalidArgument: names the job, its model and what was asked for.
absl::Status RequireTransformer(const v1::JobSpec& spec, const std::string& job_id,
                                absl::string_view asked_for);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TRANSFORMER_JOB_H_
