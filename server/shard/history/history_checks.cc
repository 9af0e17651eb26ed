// The part of HistoryWorld that says what must hold.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "common/partition/cut_order.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/history/history_world.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {

absl::Status HistoryWorld::CheckClosed(const v1::OpenTablesReply& reply) const {
  for (const v1::PartitionClocks& clocks : reply.partitions()) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const auto known = acknowledged_closed_.find({clocks.partition(), slot});
      if (known != acknowledged_closed_.end() && clocks.closed(slot) < known->second) {
        return Fail(absl::StrCat("partition ", clocks.partition(), " has lost a close of slot ",
                                 slot, ": ", known->second, " were acknowledged, it knows ",
                                 clocks.closed(slot)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status HistoryWorld::CheckAnswer(const Answer& answer) {
  const v1::ExchangeRequest& request = answer.request;
  const std::pair<uint32_t, uint32_t> key(request.partition(), request.slot());
  switch (request.operation_case()) {
    case v1::ExchangeRequest::kDensePull:
    case v1::ExchangeRequest::kSparsePull:
      return CheckPull(answer);
    case v1::ExchangeRequest::kCut:
      return TakeCutAnswer(answer);
    case v1::ExchangeRequest::kClose:
      acknowledged_closed_[key] = std::max(acknowledged_closed_[key], request.clock() + 1);
      break;
    default:
      break;
  }
  if (writing_.has_value() && request.clock() >= *writing_) ++tally_.pushes_beside_writes;
  if (answer.reply.already_applied()) {
    ++tally_.repeats_found_applied;
  } else {
    acknowledged_incarnation_[key] =
        std::max(acknowledged_incarnation_[key], request.incarnation());
  }
  return absl::OkStatus();
}

absl::Status HistoryWorld::TakeCutAnswer(const Answer& answer) {
  // Only the writer uses what the answer to a take says about the file.
  if (ReadCutOrder(answer.request_payload)->step == CutOrder::Step::kTake) return absl::OkStatus();
  const auto [it, added] =
      cuts_.emplace(std::pair(answer.request.clock(), answer.request.partition()), answer.reply);
  // A view that went with its server is answered so again, or once the cut was taken anew.
  if (added || it->second.checkpoint_path().empty() || answer.reply.checkpoint_path().empty() ||
      it->second.checkpoint_checksum() == answer.reply.checkpoint_checksum()) {
    return absl::OkStatus();
  }
  return Fail(absl::StrCat("a cut has two answers: ", answer.reply.ShortDebugString()));
}

absl::Status HistoryWorld::CheckLossScale(const Answer& answer) {
  const uint64_t slowest = answer.reply.slowest_clock();
  if (!options_.workload.overflows || !answer.request.has_dense_pull() || slowest == 0) {
    return absl::OkStatus();
  }
  // A job that goes back to a checkpoint gets its loss scale from there.
  if (!answer.reply.has_loss_scale() && slowest <= checkpoint_clock_) return absl::OkStatus();
  ++tally_.loss_scales_told;
  const v1::GroupLossScale expected = workload_.LossScaleAfter(slowest);
  if (answer.reply.loss_scale().SerializeAsString() == expected.SerializeAsString()) {
    return absl::OkStatus();
  }
  return Fail(absl::StrCat("after ", slowest, " clocks the loss scale is ",
                           answer.reply.loss_scale().ShortDebugString(), ", expected ",
                           expected.ShortDebugString()));
}

absl::Status HistoryWorld::CheckPull(const Answer& answer) {
  MUSTER_RETURN_IF_ERROR(CheckLossScale(answer));
  const uint64_t clock = answer.request.clock();
  const uint64_t slowest = answer.reply.slowest_clock();
  const std::optional<uint64_t> bound = options_.workload.bound;
  const uint64_t lag = clock > slowest ? clock - slowest : 0;
  tally_.largest_lag = std::max(tally_.largest_lag, lag);
  if (bound.has_value() && lag > *bound) {
    return Fail(absl::StrCat("a pull at clock ", clock, " was answered at clock ", slowest));
  }
  if (bound == uint64_t{0}) {
    // If previous values are kept, the pull sees exactly the clock's version; otherwise it may see
    // the next one after a respawn.
    const uint64_t version = options_.workload.keeps_previous() ? clock : slowest;
    if (version > clock + 1) {
      return Fail(absl::StrCat("a pull at clock ", clock, " saw version ", version));
    }
    const std::vector<uint64_t> all(slots_.size(), version);
    return CheckValues(answer.request, answer.payload, all, all, version);
  }
  std::vector<uint64_t> lowest(slots_.size(), slowest);
  lowest[answer.slot] = std::max(lowest[answer.slot], clock);
  return CheckValues(answer.request, answer.payload, lowest, reached_, std::nullopt);
}

// The values must include all contributions below `lowest` and none from `highest` on, by slot.
absl::Status HistoryWorld::CheckValues(const v1::ExchangeRequest& pull, const Payload& payload,
                                       const std::vector<uint64_t>& lowest,
                                       const std::vector<uint64_t>& highest,
                                       std::optional<uint64_t> version) const {
  HistoryWorkload::Values values(payload.size() / sizeof(float));
  payload.CopyTo(values.data());
  const size_t offset = pull.has_dense_pull() ? 0 : workload_.DenseElements(pull.partition());
  if (options_.versions != nullptr) {
    const auto [known, added] = options_.versions->try_emplace(
        std::tuple(pull.partition(), *version, pull.has_dense_pull()), values);
    if (std::memcmp(known->second.data(), values.data(), payload.size()) == 0) {
      return absl::OkStatus();
    }
    return Fail(absl::StrCat("partition ", pull.partition(), ", version ", *version,
                             " has other bits than in another run"));
  }
  const HistoryWorkload::Values above = workload_.After(pull.partition(), lowest);
  const HistoryWorkload::Values below = workload_.After(pull.partition(), highest);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= above[offset + i] && values[i] >= below[offset + i]) continue;
    return Fail(absl::StrCat("slot ", pull.slot(), " at clock ", pull.clock(), ", partition ",
                             pull.partition(), ": element ", i, " is ", values[i], ", expected ",
                             below[offset + i], " to ", above[offset + i]));
  }
  return absl::OkStatus();
}

absl::Status HistoryWorld::CheckCheckpoint() {
  ++tally_.checkpoints;
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                          ReadManifest(storage_, checkpoint_folder_));
  tally_.deltas += manifest.has_base_clock();
  for (const v1::CheckpointFile& file : manifest.files()) {
    MUSTER_ASSIGN_OR_RETURN(
        const auto reader,
        PartitionFileReader::Open(storage_, JoinUri(checkpoint_folder_, file.path())));
    tally_.delta_files += reader->header().has_base_clock();
    for (const v1::StoredLossScale& kept : reader->header().loss_scales()) {
      ++tally_.loss_scales_kept;
      const v1::LossScale expected = workload_.LossScaleAfter(checkpoint_clock_).value();
      if (kept.scale() == expected.scale() && kept.steps() == expected.steps()) continue;
      return Fail(absl::StrCat("the checkpoint at clock ", checkpoint_clock_, " has loss scale ",
                               kept.ShortDebugString(), ", expected ",
                               expected.ShortDebugString()));
    }
  }
  FakeLogFileSystem files;
  TaskQueue executor;
  ShardEngine::Options options;
  options.store = std::make_shared<MemoryStore>();
  options.log_dir = "/logs";
  options.log_file_system = &files;
  options.log_segment_bytes = 8192;
  options.checkpoint_storage = &storage_;
  options.executor = &executor;
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ShardEngine> engine,
                          ShardEngine::Create(std::move(options)));
  std::vector<uint32_t> partitions(options_.workload.partitions);
  std::iota(partitions.begin(), partitions.end(), 0);
  v1::OpenTablesRequest open = workload_.OpenRequest(generation_, partitions);
  open.set_start_clock(checkpoint_clock_);
  open.set_restore_uri(checkpoint_folder_);
  MUSTER_RETURN_IF_ERROR(engine->OpenTables(open).status());
  const std::vector<uint64_t> all(slots_.size(), checkpoint_clock_);
  absl::Status status;
  int checked = 0;
  for (const uint32_t p : partitions) {
    for (auto& [request, payload] : workload_.Pulls(0, checkpoint_clock_, p)) {
      request.set_generation(generation_);
      request.set_incarnation(1);
      ExchangeCall call;
      call.request = std::make_shared<v1::ExchangeRequest>(request);
      call.payload = payload;
      call.done = [&, request = request](v1::ExchangeReply reply, const Payload& values) {
        ++checked;
        if (reply.code() != 0) status.Update(Fail(reply.ShortDebugString()));
        status.Update(CheckValues(request, values, all, all, checkpoint_clock_));
      };
      engine->Execute(std::move(call));
    }
  }
  executor.RunAll();
  if (checked != 2 * static_cast<int>(partitions.size())) return Fail("a restored job is silent");
  if (status.ok()) return status;
  return Fail(absl::StrCat("restored from clock ", checkpoint_clock_, ": ", status.message()));
}

absl::Status HistoryWorld::CheckFinalValues() {
  const uint64_t clocks = options_.workload.clocks;
  const std::vector<uint64_t> all(slots_.size(), clocks);
  for (uint32_t p = 0; p < options_.workload.partitions; ++p) {
    const uint32_t server = p % options_.servers;
    servers_[server]->crash_after = 0;
    MUSTER_RETURN_IF_ERROR(OpenTables(server, 0).status());
    answers_.clear();
    for (auto& [request, payload] : workload_.Pulls(0, clocks, p)) {
      request.set_generation(generation_);
      request.set_incarnation(slots_[0].incarnation);
      Deliver(server, {request, payload}, 0);
    }
    servers_[server]->executor.RunAll();
    int checked = 0;
    for (const Answer& answer : answers_) {
      if (answer.stream != 0) continue;
      if (answer.reply.code() != 0) return Fail(answer.reply.ShortDebugString());
      MUSTER_RETURN_IF_ERROR(CheckValues(answer.request, answer.payload, all, all, clocks));
      ++checked;
    }
    if (checked != 2) return Fail(absl::StrCat("partition ", p, " does not answer at the end"));
  }
  return absl::OkStatus();
}

}  // namespace muster
