#ifndef MUSTER_CLIENT_CLUSTER_SESSION_H_
#define MUSTER_CLIENT_CLUSTER_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/cluster_folder.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/job_client.h"
#include "common/rpc/tls_files.h"

namespace CLI {
class App;
}  // namespace CLI

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

namespace v1 {
class JobSpec;
class JobStatus;
}  // namespace v1

// One run of `muster`: the options that every command has, how to reach the cluster, and how
// results are printed. Single-threaded.
class Session {
 public:
  enum class Output { kText, kJson };

  // Options of every command, bound by main. Without an address and a folder, MUSTER_COORDINATOR in
  // the environment counts as the address.
  std::string coordinator_address;
  std::string data_dir;
  TlsFiles tls;
  Output output = Output::kText;

  // The exit code that the command chose.
  int exit_code = kSuccess;

  // How long a command waits for a coordinator.
  JobClient::Patience patience;

  // Runs a command's body, and tells of its failure.
  void Run(const std::function<absl::Status()>& body);

  // Tells of a failure on standard error, and sets the exit code. With --output json it is one
  // line, the last one there: {"error":{"code":"NOT_FOUND","message":"…","exit_code":2}}; the code
  // is that of the status, or JOB_FAILED or JOB_CANCELLED where a job that was waited for did not
  // succeed.
  void Fail(const absl::Status& status);
  void Fail(ExitCode exit, const std::string& code, const std::string& message);

  // For a command that starts clusters of its own, or none: InvalidArgument if certificates are
  // given, which it would not use.
  absl::Status RefuseCertificates() const;

  // The cluster's folder: --data-dir, or that of the last `up`. NoCoordinatorError: neither is
  // there.
  absl::StatusOr<ClusterFolder> Folder() const;

  // The cluster's JobService. NoCoordinatorError: no cluster is known, or it does not run.
  absl::StatusOr<JobClient*> Jobs();

  // Prints what a command did: the text, or with --output json the fields as one object.
  void PrintResult(const std::string& text,
                   const std::vector<std::pair<std::string, std::string>>& fields) const;

  // Prints a message as JSON, on one line. Numbers that are not finite are the strings "NaN",
  // "Infinity" and "-Infinity", integers of 64 bits strings of digits.
  void PrintJson(const google::protobuf::Message& message);
  // The same, with more fields after its own, and without those of its own that are left out.
  void PrintJson(const google::protobuf::Message& message,
                 const std::vector<std::pair<std::string, double>>& fields,
                 const std::vector<std::string>& left_out = {});

  // Shows a job's progress until it ends: a bar that redraws itself on a terminal, plain lines
  // elsewhere, one JSON object per line with --output json. Sets the exit code by how the job
  // ended.
  absl::Status WatchToEnd(const std::string& job_id);
  absl::Status WatchToEnd(const std::string& job_id, v1::JobStatus& last);

 private:
  std::unique_ptr<JobClient> jobs_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_SESSION_H_
