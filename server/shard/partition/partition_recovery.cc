#include "server/shard/partition/partition_recovery.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"

namespace muster {
namespace {

// Replayed records after which memory is accounted for again, and whoever waits is asked.
constexpr uint64_t kRecordsPerAccount = 256;

}  // namespace

absl::Status PartitionRecovery::Run(const v1::PartitionState& state,
                                    absl::FunctionRef<absl::Status()> go_on) {
  MUSTER_RETURN_IF_ERROR(parts_.state.Restore(state));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t loaded_lsn,
                          parts_.journal.ReadImage(state.lsn(), parts_.tables));
  parts_.applier.updater().SetLoadedLsn(loaded_lsn);
  std::optional<ReplayMeter::Partition> replay;
  if (parts_.replays != nullptr) {
    const JobTables& job = *parts_.tables.job;
    replay.emplace(*parts_.replays, job.job_id(), job.generation());
  }
  MUSTER_RETURN_IF_ERROR(
      parts_.journal.Replay(state.lsn(),
                            [&](uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> request,
                                Payload payload) -> absl::Status {
                              if (lsn % kRecordsPerAccount == 0) MUSTER_RETURN_IF_ERROR(go_on());
                              ExchangeCall call;
                              const uint64_t bytes = request->ByteSizeLong() + payload.size();
                              call.request = std::move(request);
                              call.payload = std::move(payload);
                              MUSTER_RETURN_IF_ERROR(Replay(lsn, std::move(call)));
                              if (replay.has_value()) replay->Add(bytes);
                              return absl::OkStatus();
                            }));
  parts_.account();
  return absl::OkStatus();
}

absl::Status PartitionRecovery::ReplayIncarnation(uint64_t lsn, const v1::ExchangeRequest& record) {
  const uint32_t slots = parts_.tables.job->slots();
  if (record.slot() < slots) {
    return parts_.checks.EnterIncarnation(record.slot(), record.incarnation());
  }
  return absl::DataLossError(
      absl::StrCat("log record ", lsn, " names slot ", record.slot(), " of ", slots));
}

absl::Status PartitionRecovery::Replay(uint64_t lsn, ExchangeCall call) {
  if (call.request->operation_case() == v1::ExchangeRequest::OPERATION_NOT_SET) {
    return ReplayIncarnation(lsn, *call.request);
  }
  if (call.request->has_cut()) return parts_.cuts.Replay(call);
  AdmittedCall admitted;
  admitted.call = std::move(call);
  parts_.checks.Check(admitted);
  if (absl::IsResourceExhausted(admitted.status)) {
    // Pushes are accounted for as if all their rows were new; ask again with what they really took.
    parts_.account();
    call = std::move(admitted.call);
    admitted = AdmittedCall();
    admitted.call = std::move(call);
    parts_.checks.Check(admitted);
  }
  if (absl::IsResourceExhausted(admitted.status)) return admitted.status;
  if (!admitted.status.ok() || admitted.already_applied) {
    return absl::DataLossError(
        absl::StrCat("log record ", lsn, " does not follow from those before it: ",
                     admitted.already_applied ? "it repeats one" : admitted.status.message()));
  }
  admitted.lsn = lsn;
  parts_.checks.Enter(admitted);
  MUSTER_RETURN_IF_ERROR(parts_.applier.Replay(admitted));
  if (lsn % kRecordsPerAccount == 0) parts_.account();
  return absl::OkStatus();
}

}  // namespace muster
