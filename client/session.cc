#include "client/session.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/progress_display.h"
#include "client/terminal.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "common/text/dump_json.h"
#include "common/text/printable.h"
#include "google/protobuf/util/json_util.h"
#include "proto/status.pb.h"

namespace muster {

void Session::Run(const std::function<absl::Status()>& body) {
  const absl::Status status = body();
  if (status.ok()) return;
  PrintError("muster: %s\n", std::string(status.message()));
  exit_code = ExitCodeFor(status);
}

absl::Status Session::RefuseCertificates() const {
  if (tls.None()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this command uses no cluster but plain ones of its own, on this machine's loopback; leave "
      "--tls-authority, --tls-certificate and --tls-key out");
}

absl::StatusOr<ClusterFolder> Session::Folder() const {
  const std::string folder = data_dir.empty() ? CurrentClusterFolder() : data_dir;
  if (folder.empty()) {
    return NoCoordinatorError(
        "no cluster is known here; start one with `muster up`, or name one with --coordinator "
        "HOST:PORT");
  }
  return ClusterFolder(folder);
}

absl::StatusOr<JobClient*> Session::Jobs() {
  if (jobs_ == nullptr) {
    std::string address = coordinator_address;
    const char* usual = std::getenv("MUSTER_COORDINATOR");
    if (address.empty() && data_dir.empty() && usual != nullptr) address = usual;
    TlsFiles files = tls;
    if (address.empty()) {
      MUSTER_ASSIGN_OR_RETURN(const ClusterFolder folder, Folder());
      absl::StatusOr<LocalCluster> cluster = folder.Read();
      // Whatever the folder says is wrong, to the user of a job command the cluster is unreachable.
      if (!cluster.ok()) return NoCoordinatorError(cluster.status().message());
      address = cluster->coordinator_address;
      if (files.None()) files = cluster->tls;
    }
    MUSTER_ASSIGN_OR_RETURN(const RpcCredentials credentials,
                            RpcCredentials::Of(files, TlsUse::kCalls));
    jobs_ = std::make_unique<JobClient>(address, credentials);
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

void Session::PrintJson(const google::protobuf::Message& message) const { PrintJson(message, {}); }

void Session::PrintJson(const google::protobuf::Message& message,
                        const std::vector<std::pair<std::string, double>>& fields,
                        const std::vector<std::string>& left_out) const {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) return;
  if (!fields.empty() || !left_out.empty()) {
    auto object = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
    for (const std::string& name : left_out) object.erase(name);
    for (const auto& [name, value] : fields) object[name] = value;
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
  ProgressDisplay display =
      output == Output::kJson
          ? ProgressDisplay([this](const v1::JobStatus& status) { PrintJson(status); })
          : ProgressDisplay();
  const absl::Status watched = jobs->Watch(
      job_id, [&display](const v1::JobStatus& status) { display.Show(status); }, last);
  display.Finish();
  MUSTER_RETURN_IF_ERROR(watched);
  if (last.state() != v1::SUCCEEDED) {
    exit_code = kJobFailed;
    PrintError("muster: job %s %s%s%s\n", job_id,
               last.state() == v1::FAILED ? "failed" : "was cancelled",
               last.message().empty() ? "" : ": ", PrintableLine(last.message()));
  }
  return absl::OkStatus();
}

}  // namespace muster
