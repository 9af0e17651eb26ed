#include "worker/strategy/group/recovery/kept_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/base/status_macros.h"
#include "common/partition/schema.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "proto/schema.pb.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/exchange/array_exchange.h"
#include "worker/strategy/group/recovery/state_broadcast.h"

namespace muster {
namespace {

size_t MostParts(const v1::TablesSchema& schema, const MeshPosition& own) {
  size_t most = 0;
  for (const int rank : own.mesh.Group(0, kPartAxes)) {
    // The rank's own state has been made of the schema.
    const Tables tables = LocalTables(schema, own.Of(rank)).value();
    most = std::max(most, LayoutOfTensors(schema, tables.tensors).value().Trained().parts().size());
  }
  return most;
}

}  // namespace

KeptCopies::KeptCopies(const v1::TablesSchema& schema, const MeshPosition& own)
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
                          ShardState::Create(*schema_, own_.Of(shard)));
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
    elements += copy.state->trained_shards().slice_elements();
    copy.rows.clear();
    for (const SparseTableSpec& table : copy.state->tables().sparse) {
      copy.rows.emplace_back(table.dim);
    }
  }
  sums_ = std::make_unique<Arena>(elements);
  float* next = sums_->values().data();
  for (size_t part = 0; part < parts_; ++part) {
    for (auto& [shard, copy] : copies_) {
      const absl::Span<const ShardLayout::Part> parts = copy.state->trained_shards().parts();
      if (part >= parts.size()) continue;
      copy.sums.emplace_back(next, parts[part].slice);
      next += parts[part].slice;
    }
  }
}

void KeptCopies::Divide(const MeshPosition& own) {
  Clear();
  own_ = own;
}

bool KeptCopies::NobodyKeepsAny() const {
  return std::all_of(keepers_.begin(), keepers_.end(), [](int keeper) { return keeper < 0; });
}

absl::Status KeptCopies::ExchangeRows(Communicator& communicator, absl::Span<const RowSum> own,
                                      absl::Duration timeout, const WaitForWork& wait) {
  if (own.empty() || NobodyKeepsAny()) return absl::OkStatus();
  const size_t ranks = communicator.size();
  const size_t tables = own.size();
  const int keeper = keepers_[communicator.rank()];
  // Numbers of keys, [ranks, tables].
  std::vector<int64_t> sent(ranks * tables), received;
  // The keys and rows that go to the keeper, table after table.
  std::vector<uint64_t> keys;
  std::vector<float> rows;
  for (size_t table = 0; table < tables && keeper >= 0; ++table) {
    sent[keeper * tables + table] = static_cast<int64_t>(own[table].keys().size());
    keys.insert(keys.end(), own[table].keys().begin(), own[table].keys().end());
    rows.insert(rows.end(), own[table].sums().begin(), own[table].sums().end());
  }
  const ArrayExchange exchange = {communicator, timeout, wait};
  MUSTER_RETURN_IF_ERROR(exchange.Numbers(sent, received, "numbers of rows for copies"));

  std::vector<size_t> send_keys(ranks), send_floats(ranks), key_counts(ranks), float_counts(ranks);
  if (keeper >= 0) {
    send_keys[keeper] = keys.size();
    send_floats[keeper] = rows.size();
  }
  for (size_t i = 0; i < received.size(); ++i) {
    key_counts[i / tables] += received[i];
    float_counts[i / tables] += received[i] * own[i % tables].dim();
  }
  std::vector<uint64_t> keys_in;
  std::vector<float> rows_in;
  MUSTER_RETURN_IF_ERROR(
      exchange.Arrays(keys, send_keys, keys_in, key_counts, "keys of rows for copies"));
  MUSTER_RETURN_IF_ERROR(
      exchange.Arrays(rows, send_floats, rows_in, float_counts, "sums of rows for copies"));

  absl::Span<const uint64_t> next_keys = keys_in;
  absl::Span<const float> next_rows = rows_in;
  // Ranks are in the order of their copies.
  for (auto& [owner, copy] : copies_) {
    for (size_t table = 0; table < tables; ++table) {
      const size_t count = received[owner * tables + table];
      const size_t floats = count * own[table].dim();
      copy.rows[table].Clear();
      copy.rows[table].Add(next_keys.first(count), next_rows.first(floats));
      next_keys.remove_prefix(count);
      next_rows.remove_prefix(floats);
    }
  }
  return absl::OkStatus();
}

absl::Status KeptCopies::ExchangeSums(Communicator& communicator,
                                      absl::Span<const absl::Span<float>> own,
                                      absl::Duration timeout, const WaitForWork& wait) {
  if (NobodyKeepsAny()) return absl::OkStatus();
  const int keeper = keepers_[communicator.rank()];
  std::vector<size_t> sent(communicator.size());
  std::vector<size_t> received(communicator.size());
  std::vector<std::shared_ptr<Work>> works;
  for (size_t part = 0; part < parts_; ++part) {
    const absl::Span<float> mine = part < own.size() ? own[part] : absl::Span<float>();
    if (keeper >= 0) sent[keeper] = mine.size();
    // Without copies nothing is written.
    CollectiveCall call =
        ArrayCall<float>(Collective::kAllToAll, mine, mine.data(), timeout, "sums for copies");
    for (auto it = copies_.rbegin(); it != copies_.rend(); ++it) {
      const std::vector<absl::Span<float>>& sums = it->second.sums;
      received[it->first] = part < sums.size() ? sums[part].size() : 0;
      if (part < sums.size()) call.out = sums[part].data();
    }
    call.send_counts = sent;
    call.counts = received;
    works.push_back(communicator.Start(call));
  }
  absl::Status result;
  for (const std::shared_ptr<Work>& work : works) result.Update(wait(*work));
  return result;
}

absl::Status KeptCopies::ExchangeDirections(Communicator& communicator, ShardState& own,
                                            absl::Duration timeout, const WaitForWork& wait) {
  if (NobodyKeepsAny()) return absl::OkStatus();
  std::vector<size_t> send_counts(communicator.size()), counts(communicator.size());
  std::vector<float> sent, received;
  if (const int keeper = keepers_[communicator.rank()]; keeper >= 0) {
    sent.resize(own.trained_shards().slice_elements());
    own.ReadDirections(absl::MakeSpan(sent));
    send_counts[keeper] = sent.size();
  }
  for (const auto& [owner, copy] : copies_) {
    counts[owner] = copy.state->trained_shards().slice_elements();
  }
  const ArrayExchange exchange = {communicator, timeout, wait};
  MUSTER_RETURN_IF_ERROR(
      exchange.Arrays(sent, send_counts, received, counts, "directions for copies"));
  absl::Span<const float> next = received;
  // Ranks are in the order of their copies.
  for (auto& [owner, copy] : copies_) {
    copy.state->WriteDirections(next.first(counts[owner]));
    next.remove_prefix(counts[owner]);
  }
  return absl::OkStatus();
}

void KeptCopies::MakeStep(const StepOutcome& outcome) {
  for (auto& [shard, copy] : copies_) {
    if (outcome.overflowed >= 0) {
      copy.state->set_clock(outcome.clock + 1);
    } else {
      copy.state->Apply({.examples = outcome.examples, .dense = copy.sums, .rows = copy.rows},
                        outcome.scale, outcome.rate_factor);
    }
  }
}

}  // namespace muster
