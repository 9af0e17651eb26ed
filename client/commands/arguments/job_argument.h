#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_ARGUMENT_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_ARGUMENT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/job_client.h"
#include "common/checkpoint/checkpoint_name.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

namespace v1 {
class CheckpointRequest;
class JobStatus;
}  // namespace v1

class Session;

struct JobCommandOptions {
  // Says which job a name means if several jobs have it.
  JobClient::Naming naming = JobClient::Naming::kNewest;
  // Ends the error that no coordinator answers.
  std::string unreachable = "";
  // Called first, before anything starts threads (Session::CatchInterrupt).
  std::function<void()> before = [] {};
};

// Adds a command whose one argument is a job's id or name, and which runs `body` with the job's id.
// An error about a checkpoint's name says that a job is wanted.
CLI::App* AddJobCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    std::function<absl::Status(Session& session, JobClient& jobs, const std::string& job_id)> body,
    JobCommandOptions options = {});

// Help text of an argument that names a checkpoint.
inline constexpr char kCheckpointArgument[] =
    "JOB@CLOCK, JOB@best for the one of its best evaluation, or JOB for its last checkpoint; JOB "
    "is an id or a name";

// Returns the checkpoint that `text` names, with the job's id in place of a name.
absl::StatusOr<CheckpointName> FindCheckpoint(JobClient& jobs, const std::string& text,
                                              JobClient::Naming naming);

// Returns the checkpoint's name with its clock in place of `best`. `job` is its job's status.
// NotFound: the job has no best checkpoint.
absl::StatusOr<CheckpointName> WithClockOfBest(const CheckpointName& checkpoint,
                                               const v1::JobStatus& job);

// Adds a command whose one argument names a checkpoint, and which runs `body` with the checkpoint,
// like AddJobCommand. `argument` is the argument's help text.
CLI::App* AddCheckpointCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    const std::string& argument,
    std::function<absl::Status(Session& session, JobClient& jobs, const CheckpointName& checkpoint)>
        body,
    JobCommandOptions options = {});

// Adds the flag --averaged, which takes the averages that a job kept of its weights.
void AddAveragedFlag(CLI::App& command, bool& averaged);

// Return a checkpoint's name for rpcs, and for people.
v1::CheckpointRequest RequestFor(const CheckpointName& checkpoint);
std::string TextOf(const CheckpointName& checkpoint);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_JOB_ARGUMENT_H_
