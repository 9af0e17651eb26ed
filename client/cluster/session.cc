#include "client/cluster/session.h"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/terminal/progress.h"
#include "client/terminal/progress_display.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/daemon/tls_flags.h"
#include "common/rpc/rpc_credentials.h"
#include "common/text/dump_json.h"
#include "common/text/error_json.h"
#include "common/text/printable.h"
#include "google/protobuf/util/json_util.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Returns the clusters that run on this machine, as far as their folders tell, for the end of an
// error that no coordinator answers; empty if there are none.
std::string DescribeRunningClusters() {
  std::string text;
  for (const std::string& folder : RunningClusters()) {
    const absl::StatusOr<LocalCluster> cluster = ClusterFolder(folder).Read();
    if (!cluster.ok()) continue;
    absl::StrAppend(&text, text.empty() ? "; on this machine run: --data-dir " : ", --data-dir ",
                    folder, " (coordinator ", cluster->coordinator_address, ")");
  }
  return text;
}

}  // namespace

void Session::Run(const std::function<absl::Status()>& body) {
  if (const absl::Status status = body(); !status.ok()) Fail(status);
}

void Session::Fail(const absl::Status& status) {
  const ExitCode exit = ExitCodeFor(status);
  Fail(exit, absl::StatusCodeToString(status.code()),
       absl::StrCat(status.message(), exit == kUnreachable ? DescribeRunningClusters() : ""));
}

void Session::Fail(ExitCode exit, const std::string& code, const std::string& message) {
  exit_code = exit;
  Report(exit, code, message);
}

void Session::Report(ExitCode exit, const std::string& code, const std::string& message) const {
  if (output == Output::kText) return PrintError("muster: %s\n", message);
  PrintError("%s\n", ErrorJson(code, message, exit));
}

void Session::ReportInterrupt(const std::string& left) const {
  // A terminal shows ^C on the line.
  if (output == Output::kText && isatty(STDERR_FILENO) == 1) PrintError("\n");
  Report(kInterrupted, "INTERRUPTED", left);
}

void Session::CatchInterrupt(const std::string& left) {
  interrupt_ = std::make_unique<Interrupt>();
  interrupt_->Call([this, left] {
    ReportInterrupt(left);
    EndAsInterrupted();
  });
}

std::string Session::CommandLine(absl::string_view words) const {
  std::string line = absl::StrCat("muster ", words);
  if (!coordinator_address.empty()) {
    absl::StrAppend(&line, " --coordinator ", coordinator_address);
  } else if (!data_dir.empty()) {
    absl::StrAppend(&line, " --data-dir ", data_dir);
  }
  for (const std::string& argument : TlsArguments(tls)) absl::StrAppend(&line, " ", argument);
  return line;
}

absl::Status Session::RefuseCertificates() const {
  if (tls.None()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this command starts clusters of its own on this machine, without TLS; leave "
      "--tls-authority, --tls-certificate and --tls-key out");
}

absl::StatusOr<ClusterFolder> Session::Folder() const {
  const std::string folder = data_dir.empty() ? CurrentClusterFolder() : data_dir;
  if (folder.empty()) {
    return NoCoordinatorError(
        "no cluster was named or started here; start one with `muster up`, or name one with "
        "--coordinator HOST:PORT");
  }
  return ClusterFolder(folder);
}

absl::StatusOr<Session::Coordinator> Session::FindCoordinator() const {
  Coordinator found = {.address = coordinator_address, .tls = tls, .program_token_file = ""};
  const char* usual = std::getenv("MUSTER_COORDINATOR");
  if (found.address.empty() && data_dir.empty() && usual != nullptr) found.address = usual;
  const char* token_file = std::getenv("MUSTER_PROGRAM_TOKEN_FILE");
  if (token_file != nullptr) found.program_token_file = token_file;
  if (!found.address.empty()) return found;
  MUSTER_ASSIGN_OR_RETURN(const ClusterFolder folder, Folder());
  absl::StatusOr<LocalCluster> cluster = folder.Read();
  // Whatever the folder says is wrong, to the user of a job command the cluster is unreachable.
  if (!cluster.ok()) return NoCoordinatorError(cluster.status().message());
  found.address = cluster->coordinator_address;
  if (found.tls.None()) found.tls = cluster->tls;
  if (found.program_token_file.empty()) found.program_token_file = folder.ProgramTokenFile();
  return found;
}

absl::StatusOr<JobClient*> Session::Jobs() {
  if (jobs_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(Coordinator found, FindCoordinator());
    MUSTER_ASSIGN_OR_RETURN(const RpcCredentials credentials,
                            RpcCredentials::Of(found.tls, TlsUse::kCalls));
    jobs_ = std::make_unique<JobClient>(found.address, credentials, patience,
                                        std::move(found.program_token_file));
  }
  return jobs_.get();
}

void Session::PrintResult(const std::string& text,
                          const std::vector<std::pair<std::string, std::string>>& fields) const {
  if (output == Output::kText) {
    Print("%s\n", text);
  } else {
    nlohmann::ordered_json json;
    for (const auto& [name, value] : fields) json[name] = value;
    PrintJsonText(DumpJson(json, 1));
  }
}

void Session::PrintJson(const google::protobuf::Message& message) {
  PrintJson(message, nlohmann::ordered_json::object());
}

void Session::PrintJson(const google::protobuf::Message& message,
                        const nlohmann::ordered_json& fields,
                        const std::vector<std::string>& left_out) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto made = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!made.ok()) {
    return Fail(absl::InternalError(
        absl::StrCat("the result, a ", message.GetTypeName(), ", has no JSON: ", made.ToString())));
  }
  if (!fields.empty() || !left_out.empty()) {
    auto object = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      return Fail(absl::InternalError(
          absl::StrCat("the result, a ", message.GetTypeName(), ", has no readable JSON")));
    }
    for (const std::string& name : left_out) object.erase(name);
    for (const auto& [name, value] : fields.items()) object[name] = value;
    json = DumpJson(object);
  }
  PrintJsonText(json);
}

absl::Status Session::WatchToEnd(const std::string& job_id) {
  v1::JobStatus last;
  return WatchToEnd(job_id, last);
}

absl::Status Session::WatchToEnd(const std::string& job_id, v1::JobStatus& last) {
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, Jobs());
  if (interrupt_ != nullptr) interrupt_->Call([jobs] { jobs->StopWatching(); });
  ProgressDisplay display =
      output == Output::kJson
          ? ProgressDisplay([this](const v1::JobStatus& status) { PrintJson(status); })
          : ProgressDisplay();
  const absl::Status watched = jobs->Watch(
      job_id, [&display](const v1::JobStatus& status) { display.Show(status); }, last);
  display.Finish();
  if (!watched.ok() && interrupt_ != nullptr && interrupt_->happened()) {
    Fail(
        kInterrupted, "INTERRUPTED",
        absl::StrCat("job ", job_id, " goes on: `", CommandLine(absl::StrCat("watch ", job_id)),
                     "` follows it, `", CommandLine(absl::StrCat("cancel ", job_id)), "` ends it"));
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(watched);
  if (const std::string best = BestLine(last); output == Output::kText && !best.empty()) {
    Print("%s\n", best);
  }
  if (last.state() != v1::SUCCEEDED) {
    const bool failed = last.state() == v1::FAILED;
    const std::string message = MessageBeforeTraceback(last);
    Fail(kJobFailed, failed ? "JOB_FAILED" : "JOB_CANCELLED",
         absl::StrCat("job ", job_id, failed ? " failed" : " was cancelled",
                      message.empty() ? "" : ": ", PrintableLine(message)));
    if (output == Output::kText) PrintError("%s", TracebackText(last));
  }
  return absl::OkStatus();
}

}  // namespace muster
