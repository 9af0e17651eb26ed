#include "server/shard/partition/answers/cut_history.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"

namespace muster {
namespace {

// Cuts whose repeats are answered.
constexpr size_t kCutsKnown = 2;

void Store(const CutHistory::Cut& cut, v1::CutState& state) {
  state.set_clock(cut.clock);
  state.set_path(cut.path);
  state.set_bytes(cut.bytes);
  state.set_checksum(cut.checksum);
}

CutHistory::Cut Load(const v1::CutState& state) {
  return {.clock = state.clock(),
          .path = state.path(),
          .bytes = state.bytes(),
          .checksum = state.checksum()};
}

}  // namespace

const CutHistory::Cut* CutHistory::Find(uint64_t clock) const {
  for (const Cut& cut : cuts_) {
    if (cut.clock == clock) return &cut;
  }
  return nullptr;
}

void CutHistory::Keep(Cut cut) {
  cuts_.push_front(std::move(cut));
  if (cuts_.size() > kCutsKnown) cuts_.pop_back();
}

absl::Status CutHistory::Add(Cut cut, JournalWriter& log) {
  if (log.logs()) {
    v1::ExchangeRequest record;
    record.set_clock(cut.clock);
    record.mutable_cut();
    v1::CutState state;
    Store(cut, state);
    const std::string bytes = state.SerializeAsString();
    // A cut that the log lacks is not answered later from memory either.
    MUSTER_RETURN_IF_ERROR(
        log.Write(std::move(record),
                  Payload::Copy({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()})));
  }
  Keep(std::move(cut));
  return absl::OkStatus();
}

absl::Status CutHistory::Replay(const ExchangeCall& record) {
  std::string bytes(record.payload.size(), '\0');
  record.payload.CopyTo(bytes.data());
  v1::CutState state;
  if (!state.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("a log record says of the cut at clock ",
                                            record.request->clock(), " nothing that can be read"));
  }
  Keep(Load(state));
  return absl::OkStatus();
}

void CutHistory::Save(v1::PartitionState& state) const {
  for (const Cut& cut : cuts_) Store(cut, *state.add_cuts());
}

void CutHistory::Restore(const v1::PartitionState& state) {
  for (const v1::CutState& cut : state.cuts()) cuts_.push_back(Load(cut));
}

}  // namespace muster
