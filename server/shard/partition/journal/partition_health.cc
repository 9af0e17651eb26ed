#include "server/shard/partition/journal/partition_health.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/lost_state.h"

namespace muster {

PartitionHealth::PartitionHealth(const PartitionTables& tables, ReadBack read_back,
                                 CrashPoint& crash_point, std::function<void()> refuse_waiting)
    : tables_(tables),
      read_back_(read_back),
      crash_point_(crash_point),
      refuse_waiting_(std::move(refuse_waiting)),
      out_of_memory_(FailedSince("the process has no memory left")) {}

void PartitionHealth::Close(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  if (!crashed()) refuse_waiting_();
}

void PartitionHealth::Fail(absl::string_view why) {
  absl::Status failed = out_of_memory_;
  CatchOutOfMemory("an error", [&] {
    failed = FailedSince(why);
    return absl::OkStatus();
  }).IgnoreError();
  Close(std::move(failed));
}

absl::Status PartitionHealth::FailedSince(absl::string_view why) const {
  const std::string failed = absl::StrCat("partition ", tables_.partition, " of job ",
                                          tables_.job->job_id(), " has failed, since ", why);
  if (read_back_ == ReadBack::kFromFiles) {
    return absl::UnavailableError(absl::StrCat(
        failed, "; it is read back from its files once the job's tables are opened again"));
  }
  return WithLostState(
      absl::DataLossError(absl::StrCat(
          failed, "; its values are lost, go back to a checkpoint under a new generation")),
      LostState::kServerState);
}

}  // namespace muster
