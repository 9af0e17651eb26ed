#include "client/chaos/chaos_cluster.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/terminal/progress.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kStatusPoll = absl::Milliseconds(20);
// Longest time for a job of a few seconds; a recovery waits for a lease.
constexpr absl::Duration kPatience = absl::Minutes(5);

}  // namespace

ChaosCluster::~ChaosCluster() {
  if (running()) StopLocalCluster(folder_).IgnoreError();
}

absl::Status ChaosCluster::Start(LocalClusterOptions options) {
  options.life = LocalClusterOptions::Life::kOfThisProcess;
  MUSTER_ASSIGN_OR_RETURN(const LocalCluster cluster, StartLocalCluster(folder_, options));
  supervisor_ = cluster.supervisor_pid;
  jobs_ = std::make_unique<JobClient>(cluster.coordinator_address, RpcCredentials::PlainText());
  return absl::OkStatus();
}

absl::Status ChaosCluster::AwaitCoordinator() {
  const absl::Time until = absl::Now() + kPatience;
  v1::ListJobsReply reply;
  while (true) {
    const absl::Status status = jobs_->List({}, reply);
    if (!absl::IsUnavailable(status) || absl::Now() > until) return status;
  }
}

absl::StatusOr<std::string> ChaosCluster::Submit(const v1::JobSpec& job) {
  const absl::Time until = absl::Now() + kPatience;
  std::string id;
  while (true) {
    const absl::Status status = jobs_->Submit(job, id);
    if (status.ok()) return id;
    // Workers that are being restarted have no room.
    if (!absl::IsResourceExhausted(status) || absl::Now() > until) return status;
    absl::SleepFor(kStatusPoll);
  }
}

absl::Status ChaosCluster::Await(
    const std::string& job_id,
    const std::function<absl::StatusOr<bool>(const v1::JobStatus&)>& turn,
    const std::function<std::string()>& describe) {
  const absl::Time until = absl::Now() + kPatience;
  v1::JobStatus status;
  while (true) {
    const absl::Status got = jobs_->Get(job_id, status);
    // It is started again.
    if (absl::IsUnavailable(got) && absl::Now() < until) continue;
    MUSTER_RETURN_IF_ERROR(got);
    if (HasEnded(status)) break;
    MUSTER_ASSIGN_OR_RETURN(const bool go_on, turn(status));
    if (!go_on) return absl::OkStatus();
    if (absl::Now() > until) {
      return absl::DeadlineExceededError(
          absl::StrCat("job ", job_id, " hangs: ", ProgressLine(status, 0), " ", status.message(),
                       "; it waits: ", status.waiting_for(), "; ", describe(), "; logs are in ",
                       folder_.path()));
    }
    absl::SleepFor(kStatusPoll);
  }
  if (status.state() == v1::SUCCEEDED) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " ended as ", StateName(status),
                                                    ": ", status.message(), "; ", describe(),
                                                    "; logs are in ", folder_.path()));
}

absl::StatusOr<ExportedWeights> ChaosCluster::Weights(const std::string& job_id,
                                                      std::optional<uint64_t> clock) {
  std::string file;
  v1::CheckpointRequest request;
  request.set_job_id(job_id);
  if (clock) request.set_clock(*clock);
  MUSTER_RETURN_IF_ERROR(jobs_->Export(request, [&file](absl::string_view data) {
    file.append(data.data(), data.size());
    return absl::OkStatus();
  }));
  return ParseWeights(file);
}

absl::StatusOr<std::string> ChaosCluster::FindEvent(const std::string& job_id,
                                                    absl::string_view text) {
  v1::ListEventsReply reply;
  MUSTER_RETURN_IF_ERROR(jobs_->Events(job_id, reply));
  for (const v1::JobEvent& event : reply.events()) {
    if (absl::StrContains(event.text(), text)) return event.text();
  }
  return std::string();
}

absl::StatusOr<int> ChaosCluster::CountEvents(const std::string& job_id, absl::string_view text) {
  v1::ListEventsReply reply;
  MUSTER_RETURN_IF_ERROR(jobs_->Events(job_id, reply));
  return std::count_if(
      reply.events().begin(), reply.events().end(),
      [text](const v1::JobEvent& event) { return absl::StrContains(event.text(), text); });
}

}  // namespace muster
