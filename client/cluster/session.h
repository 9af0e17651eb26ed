#ifndef MUSTER_CLIENT_CLUSTER_SESSION_H_
#define MUSTER_CLIENT_CLUSTER_SESSION_H_

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cluster/cluster_folder.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/job_client.h"
#include "client/terminal/interrupt.h"
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

// One run of `muster`: the options that every command has, the connection to the cluster, and the
// printing of results. Single-threaded.
class Session {
 public:
  enum class Output { kText, kJson };

  // Options of every command, bound by main. Without an address and a folder, the environment
  // variable MUSTER_COORDINATOR gives the address. MUSTER_PROGRAM_TOKEN_FILE names the file with
  // the token for jobs that run programs, instead of the one in the folder.
  std::string coordinator_address;
  std::string data_dir;
  TlsFiles tls;
  Output output = Output::kText;

  // Exit code that the command chose.
  int exit_code = kSuccess;

  // Time that a command waits for a coordinator.
  JobClient::Patience patience;

  // Runs a command's body and reports its failure.
  void Run(const std::function<absl::Status()>& body);

  // Reports a failure on standard error, and sets the exit code. With --output json the report is
  // the last line there: {"error":{"code":"NOT_FOUND","message":"…","exit_code":2}}. The code is
  // the status's, or JOB_FAILED or JOB_CANCELLED if a job that was waited for did not succeed.
  // Where no coordinator answers, it names the clusters that run on this machine.
  void Fail(const absl::Status& status);
  void Fail(ExitCode exit, const std::string& code, const std::string& message);

  // For commands that Ctrl-C interrupts: reports `left`, which says what the command leaves behind,
  // like Fail. Thread-safe; sets no exit code.
  void ReportInterrupt(const std::string& left) const;
  // Has Ctrl-C end WatchToEnd; until then, Ctrl-C reports `left` and ends the process. Call it
  // before Jobs, which starts threads.
  void CatchInterrupt(const std::string& left);

  // Returns `muster WORDS` with the flags by which this run found its cluster, for users to type.
  std::string CommandLine(absl::string_view words) const;

  // InvalidArgument if certificates are given. For commands that start clusters of their own, or
  // none, and would not use certificates.
  absl::Status RefuseCertificates() const;

  // Returns the cluster's folder: --data-dir, or that of the last `up`. NoCoordinatorError: there
  // is neither.
  absl::StatusOr<ClusterFolder> Folder() const;

  // Where a cluster's coordinator is, and with what to call it.
  struct Coordinator {
    std::string address;
    TlsFiles tls;
    // See JobClient.
    std::string program_token_file;
  };
  // Returns the cluster's coordinator, without calling it. NoCoordinatorError: no cluster is known,
  // or the cluster is not running.
  absl::StatusOr<Coordinator> FindCoordinator() const;

  // Returns the cluster's JobService. NoCoordinatorError: no cluster is known, or the cluster is
  // not running.
  absl::StatusOr<JobClient*> Jobs();

  // Prints a command's result: the text, or with --output json the fields as one object.
  void PrintResult(const std::string& text,
                   const std::vector<std::pair<std::string, std::string>>& fields) const;

  // Prints a message as JSON, on one line. Numbers that are not finite become the strings "NaN",
  // "Infinity" and "-Infinity"; 64-bit integers become strings of digits.
  void PrintJson(const google::protobuf::Message& message);
  // Like PrintJson above, with the object's `fields` after the message's own or in place of those
  // of the same name, and without the message's fields in `left_out`.
  void PrintJson(const google::protobuf::Message& message, const nlohmann::ordered_json& fields,
                 const std::vector<std::string>& left_out = {});

  // Shows a job's progress until the job ends: a bar that redraws itself on a terminal, plain lines
  // elsewhere, one JSON object per line with --output json. A last line of text tells of the best
  // checkpoint if that is not the last one. Sets the exit code by how the job ended. After
  // CatchInterrupt, Ctrl-C ends it and the job goes on, which is reported.
  absl::Status WatchToEnd(const std::string& job_id);
  absl::Status WatchToEnd(const std::string& job_id, v1::JobStatus& last);

 private:
  void Report(ExitCode exit, const std::string& code, const std::string& message) const;

  std::unique_ptr<JobClient> jobs_;
  // Calls jobs_, so it ends first.
  std::unique_ptr<Interrupt> interrupt_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_SESSION_H_
