#include "worker/strategy/group/kept_copies.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/status_macros.h"
#include "common/partition/schema.h"
#include "proto/schema.pb.h"
#include "worker/strategy/group/state_broadcast.h"

namespace muster {
namespace {

size_t MostParts(const v1::TablesSchema& schema, const ShardIndex& own) {
  size_t most = 0;
  for (int rank = 0; rank < own.model_ranks(); ++rank) {
    // The rank's own state has been made of the schema.
    const Tables tables = LocalTables(schema, own.tensor_ranks, rank).value();
    most = std::max(most, LayoutOfTensors(schema, tables.tensors).value().parts().size());
  }
  return most;
}

}  // namespace

KeptCopies::KeptCopies(const v1::TablesSchema& schema, const ShardIndex& own)
    : schema_(std::make_unique<const v1::TablesSchema>(schema)),
      own_(own),
      parts_(MostParts(schema, own)) {}

KeptCopies::~KeptCopies() = default;

std::vector<RankHolding::Copy> KeptCopies::holdings(bool has_sums) const {
  std::vector<RankHolding::Copy> holdings;
  for (const auto& [shard, copy] : copies_) {
    holdings.push_back({shard, copy.state->clock(), has_sums});
  }
  return holdings;
}

ShardState* KeptCopies::Find(int shard) {
  const auto it = copies_.find(shard);
  return it == copies_.end() ? nullptr : it->second.state.get();
}

absl::Status KeptCopies::Receive(Communicator& communicator, int from, int shard,
                                 absl::Duration timeout) {
  copies_.erase(shard);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ShardState> state,
                          ShardState::Create(*schema_, own_.At(shard)));
  MUSTER_RETURN_IF_ERROR(ReceiveState(communicator, from, timeout, *state));
  copies_[shard].state = std::move(state);
  return absl::OkStatus();
}

void KeptCopies::Settle(std::vector<int> keepers, int rank) {
  keepers_ = std::move(keepers);
  for (auto it = copies_.begin(); it != copies_.end();) {
    const auto owner = static_cast<size_t>(it->first);
    const bool stays = owner < keepers_.size() && keepers_[owner] == rank;
    it = stays ? std::next(it) : copies_.erase(it);
  }
  sums_ = nullptr;
  if (copies_.empty()) return;
  size_t elements = 0;
  for (auto& [shard, copy] : copies_) {
    copy.sums.clear();
    elements += copy.state->shard_layout().slice_elements();
  }
  sums_ = std::make_unique<Arena>(elements);
  float* next = sums_->values().data();
  for (size_t part = 0; part < parts_; ++part) {
    for (auto& [shard, copy] : copies_) {
      const absl::Span<const ShardLayout::Part> parts = copy.state->shard_layout().parts();
      if (part >= parts.size()) continue;
      copy.sums.emplace_back(next, parts[part].slice);
      next += parts[part].slice;
    }
  }
}

void KeptCopies::Divide(const ShardIndex& own) {
  Clear();
  own_ = own;
}

absl::Status KeptCopies::ExchangeSums(Communicator& communicator,
                                      absl::Span<const absl::Span<float>> own,
                                      absl::Duration timeout, const WaitForWork& wait) {
  if (std::all_of(keepers_.begin(), keepers_.end(), [](int keeper) { return keeper < 0; })) {
    return absl::OkStatus();
  }
  const int keeper = keepers_[communicator.rank()];
  std::vector<size_t> sent(communicator.size());
  std::vector<size_t> received(communicator.size());
  std::vector<std::shared_ptr<Work>> works;
  for (size_t part = 0; part < parts_; ++part) {
    const absl::Span<float> mine = part < own.size() ? own[part] : absl::Span<float>();
    if (keeper >= 0) sent[keeper] = mine.size();
    CollectiveCall call;
    call.kind = Collective::kAllToAll;
    call.dtype = DType::kF32;
    call.in = mine.data();
    // Without copies nothing is written.
    call.out = mine.data();
    for (auto it = copies_.rbegin(); it != copies_.rend(); ++it) {
      const std::vector<absl::Span<float>>& sums = it->second.sums;
      received[it->first] = part < sums.size() ? sums[part].size() : 0;
      if (part < sums.size()) call.out = sums[part].data();
    }
    call.send_counts = sent;
    call.counts = received;
    call.timeout = timeout;
    call.label = "sums for copies";
    works.push_back(communicator.Start(call));
  }
  absl::Status result;
  for (const std::shared_ptr<Work>& work : works) result.Update(wait(*work));
  return result;
}

void KeptCopies::MakeStep(const StepOutcome& outcome) {
  for (auto& [shard, copy] : copies_) {
    if (outcome.overflowed >= 0) {
      copy.state->set_clock(outcome.clock + 1);
    } else {
      copy.state->Apply({.examples = outcome.examples, .dense = copy.sums}, outcome.scale);
    }
  }
}

}  // namespace muster
