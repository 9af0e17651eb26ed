#ifndef MUSTER_CLIENT_COMMANDS_JOB_ARGUMENT_H_
#define MUSTER_CLIENT_COMMANDS_JOB_ARGUMENT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/job_client.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

class Session;

// Adds a command whose one argument is a job's id, and runs `body` with it.
CLI::App* AddJobCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    std::function<absl::Status(Session& session, JobClient& jobs, const std::string& job_id)> body);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_JOB_ARGUMENT_H_
