#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CALLS_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CALLS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/rpc/tls_files.h"
#include "worker/collectives/endpoint.h"
#include "worker/runtime/program/program_checkpoints.h"
#include "worker/runtime/program/program_reporter.h"

namespace muster {

// Answers what a program asks its task for, in JSON: one object a line, answered by one
// (docs/programs.md). An error is an answer, too. Thread-safe.
class ProgramCalls {
 public:
  // How the program reaches the servers that hold its parameters.
  struct Servers {
    // A serialised v1::TaskOrder.
    std::string order;
    // Whether the tables begin with values that the program gives them.
    bool begins = false;
    // The files of the daemon's certificate, if the cluster has any. The program runs as the same
    // user.
    TlsFiles tls;
    // Returns the newest v1::ShardMap, serialised.
    std::function<absl::StatusOr<std::string>()> shard_map;
  };
  // The facts that the task knows when the program starts.
  struct Facts {
    std::string token;
    std::string job_id;
    std::string worker_id;
    uint32_t slot = 0;
    uint32_t rank = 0;
    uint32_t world_size = 1;
    uint64_t restarts = 0;
    // How a process makes its endpoint for collective calls, and what only those of this round
    // know, as bytes; empty: the processes are not told of one another.
    HostEndpointOptions endpoint;
    std::string round_secret;
    // The folder that shows the checkpoint to go on from, and its step; empty: there is none.
    std::string resume_folder;
    uint64_t resume_step = 0;
    // Absent: the job has no servers.
    absl::optional<Servers> servers;
  };

  // Both outlive this object. Calls that wait end when `stop` is requested.
  ProgramCalls(Facts facts, ProgramReporter& reporter, ProgramCheckpoints& checkpoints,
               std::stop_token stop);

  // Returns the answer to a line. Blocks while a checkpoint is committed, and until a user asks for
  // collective calls where the line wants to know that.
  std::string Answer(absl::string_view line);

 private:
  absl::StatusOr<nlohmann::json> Call(absl::string_view line);
  absl::StatusOr<nlohmann::json> Report(const nlohmann::json& request);
  absl::StatusOr<nlohmann::json> Commit(const nlohmann::json& request);
  absl::StatusOr<nlohmann::json> ReportCollectives(const nlohmann::json& request);
  absl::StatusOr<nlohmann::json> CallServers() const;
  absl::StatusOr<nlohmann::json> CallShardMap() const;
  nlohmann::json Info() const;
  nlohmann::json Endpoint() const;
  nlohmann::json Resume() const;

  const Facts facts_;
  ProgramReporter& reporter_;
  ProgramCheckpoints& checkpoints_;
  const std::stop_token stop_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_CALLS_H_
