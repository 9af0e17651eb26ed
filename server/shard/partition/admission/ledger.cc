#include "server/shard/partition/admission/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/partition_state.pb.h"

namespace muster {

Ledger::Ledger(const Shape& shape, uint64_t start)
    : shape_(shape),
      pushes_(shape.mesh.size(kPartAxes)),
      expert_pushes_(shape.mesh.size(kServedAxes)),
      slots_(shape.mesh.world_size()) {
  for (uint32_t block = 0; block < shape.dense_blocks; ++block) {
    const BlockPushers pushers = shape.pushers.empty() ? BlockPushers() : shape.pushers[block];
    if (pushers.nobody()) continue;
    std::vector<uint64_t>& pushes = pushers.axes == kPartAxes ? pushes_ : expert_pushes_;
    pushes[pushers.position] += shape.micro_batches;
  }
  for (Slot& slot : slots_) {
    slot.closed = start;
    slot.micro_batches_in.resize(shape.dense_blocks);
    slot.chunks.resize(shape.sparse_tables);
  }
  slowest_ = start;
}

uint64_t Ledger::PredictedBytes(const Shape& shape) {
  // The bytes that malloc adds to each of a slot's two arrays, at most.
  constexpr uint64_t kAllocation = 32;
  const uint64_t block_bytes = uint64_t{shape.dense_blocks} * sizeof(uint32_t);
  const uint64_t chunk_bytes = uint64_t{shape.sparse_tables} * sizeof(std::set<uint32_t>);
  const auto parts = static_cast<uint64_t>(shape.mesh.size(kPartAxes));
  const auto ranks = static_cast<uint64_t>(shape.mesh.size(kServedAxes));
  const uint64_t pusher_bytes =
      ranks == 1 ? 0 : uint64_t{shape.dense_blocks} * sizeof(BlockPushers);
  return shape.mesh.world_size() * (sizeof(Slot) + block_bytes + chunk_bytes + 2 * kAllocation) +
         pusher_bytes + (parts + ranks) * sizeof(uint64_t) + 3 * kAllocation;
}

void Ledger::Recount() {
  slowest_ = slots_.front().closed;
  for (const Slot& slot : slots_) slowest_ = std::min(slowest_, slot.closed);
}

absl::Status Ledger::CheckIncarnation(uint32_t slot, uint64_t incarnation) const {
  const uint64_t current = slots_[slot].incarnation;
  if (incarnation >= current) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("slot ", slot, " has incarnation ", incarnation,
                                         ", current is ", current,
                                         "; it was restarted, rejoin before going on"));
}

absl::Status Ledger::Enter(uint32_t slot, uint64_t incarnation) {
  MUSTER_RETURN_IF_ERROR(CheckIncarnation(slot, incarnation));
  slots_[slot].incarnation = incarnation;
  return absl::OkStatus();
}

absl::StatusOr<bool> Ledger::IsClosed(uint32_t slot, uint64_t clock) const {
  const uint64_t open = slots_[slot].closed;
  if (clock > open) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot, " is at clock ", clock, ", but its open clock here is ", open,
                     "; close clocks ", open, " to ", clock - 1, " first"));
  }
  return clock < open;
}

void Ledger::AddBlock(uint32_t slot, uint32_t block) {
  Slot& entry = slots_[slot];
  ++entry.micro_batches_in[block];
  ++entry.pushes_in;
}

void Ledger::NoteTold(uint32_t slot, absl::Span<const uint32_t> blocks, const Told& told) {
  Slot& entry = slots_[slot];
  if (blocks.empty()) {
    if (!entry.told.has_value()) entry.told = told;
  } else if (!entry.told_by.has_value()) {
    entry.told = told;
    entry.told_by = blocks.front();
  } else if (absl::c_linear_search(blocks, *entry.told_by)) {
    entry.told->examples += told.examples;
  }
}

bool Ledger::HasWithdrawn(uint32_t slot, uint64_t clock) const {
  const Slot& entry = slots_[slot];
  if (clock == entry.closed) return entry.withdrawn;
  return clock + 1 == entry.closed && entry.closed_withdrawn;
}

absl::Status Ledger::CheckClose(uint32_t slot, absl::Span<const uint32_t> chunks,
                                bool no_dense) const {
  const Slot& entry = slots_[slot];
  if (no_dense && entry.pushes_in > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "slot ", slot, " closes clock ", entry.closed, " with no_dense, but ", entry.pushes_in,
        " pushes of dense blocks are in; push the rest and close with them"));
  }
  if (!no_dense && entry.pushes_in < PushesOf(slot)) {
    uint32_t missing = 0;
    while (!Pushes(slot, missing) || entry.micro_batches_in[missing] == shape_.micro_batches) {
      ++missing;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "slot ", slot, " closes clock ", entry.closed, " with ", entry.pushes_in, " of ",
        PushesOf(slot), " pushes of dense blocks in; the first one missing is block ", missing,
        " of micro-batch ", entry.micro_batches_in[missing], "; push it, then close"));
  }
  if (!chunks.empty() && chunks.size() != entry.chunks.size()) {
    return absl::InvalidArgumentError(absl::StrCat("close has sparse_chunks for ", chunks.size(),
                                                   " tables, the job has ", entry.chunks.size(),
                                                   " sparse tables"));
  }
  for (size_t table = 0; table < entry.chunks.size(); ++table) {
    const auto& in = entry.chunks[table];
    const uint32_t expected = chunks.empty() ? 0 : chunks[table];
    // Chunks are numbered from 0, so in order to be complete all of 0…expected-1 must be in, and no
    // other.
    if (in.size() > expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", slot, " closes clock ", entry.closed, " with ", expected,
                       " chunks of table ", table + 1, ", but ", in.size(),
                       " have come; repeat the clock with the same chunks as before"));
    }
    for (uint32_t chunk = 0; chunk < expected; ++chunk) {
      if (in.contains(chunk)) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "slot ", slot, " closes clock ", entry.closed, " with ", expected, " chunks of table ",
          table + 1, ", but chunk ", chunk, " has not come; push it, then close"));
    }
  }
  return absl::OkStatus();
}

absl::Status Ledger::CheckLeftOut(uint32_t slot, absl::Span<const uint32_t> left_out) const {
  for (const uint32_t other : left_out) {
    if (other >= slots_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("left_out names slot ", other, "; the job has ", slots_.size(), " slots"));
    }
    if (slots_[other].closed != slots_[slot].closed || !slots_[other].HasContributed()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("left_out names slot ", other,
                     ", which has pushed gradients of the clock; "
                     "enter the clock, and close it with what the answer says"));
  }
  return absl::OkStatus();
}

void Ledger::CloseOpen(uint32_t slot, std::vector<uint32_t>& closed) {
  Slot& entry = slots_[slot];
  do {
    ++entry.closed;
    entry.pushes_in = 0;
    entry.micro_batches_in.assign(shape_.dense_blocks, 0);
    for (auto& chunks : entry.chunks) chunks.clear();
    entry.told.reset();
    entry.told_by.reset();
    entry.closed_withdrawn = std::exchange(entry.withdrawn, false);
    closed.push_back(slot);
  } while (entry.left_out_of.erase(entry.closed) > 0);
}

std::vector<uint32_t> Ledger::Close(uint32_t slot, absl::Span<const uint32_t> left_out) {
  const uint64_t clock = slots_[slot].closed;
  std::vector<uint32_t> closed;
  CloseOpen(slot, closed);
  for (const uint32_t other : left_out) {
    Slot& entry = slots_[other];
    if (entry.closed == clock) {
      CloseOpen(other, closed);
    } else if (entry.closed < clock) {
      entry.left_out_of.insert(clock);
    }
  }
  Recount();
  return closed;
}

bool Ledger::Slot::HasContributed() const {
  return pushes_in > 0 || std::any_of(chunks.begin(), chunks.end(),
                                      [](const auto& numbers) { return !numbers.empty(); });
}

bool Ledger::HasContributionsFrom(uint64_t clock) const {
  return std::any_of(slots_.begin(), slots_.end(), [clock](const Slot& slot) {
    return slot.closed == clock ? slot.HasContributed() : slot.closed > clock;
  });
}

void Ledger::Save(v1::PartitionState& state) const {
  for (int i = state.slots_size(); i < static_cast<int>(slots_.size()); ++i) state.add_slots();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    v1::SlotState& stored = *state.mutable_slots(i);
    stored.set_incarnation(slot.incarnation);
    stored.set_closed_clocks(slot.closed);
    stored.set_withdrawn(slot.withdrawn);
    stored.set_closed_withdrawn(slot.closed_withdrawn);
    stored.mutable_left_out_of()->Assign(slot.left_out_of.begin(), slot.left_out_of.end());
    for (uint32_t block = 0; block < shape_.dense_blocks; ++block) {
      for (uint32_t in = 0; in < slot.micro_batches_in[block]; ++in) stored.add_dense_blocks(block);
    }
    for (const auto& chunks : slot.chunks) {
      v1::TableChunks& table = *stored.add_chunks();
      for (uint32_t chunk : chunks) table.add_chunks(chunk);
    }
  }
}

absl::Status Ledger::Restore(const v1::PartitionState& state) {
  if (state.slots_size() != static_cast<int>(slots_.size())) {
    return absl::DataLossError(absl::StrCat("stored ledger has ", state.slots_size(),
                                            " slots, the job has ", slots_.size()));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const v1::SlotState& stored = state.slots(i);
    Slot& slot = slots_[i];
    if (stored.chunks_size() != static_cast<int>(slot.chunks.size())) {
      return absl::DataLossError(absl::StrCat("stored ledger has ", stored.chunks_size(),
                                              " sparse tables, the job has ", slot.chunks.size()));
    }
    slot.incarnation = stored.incarnation();
    slot.closed = stored.closed_clocks();
    slot.withdrawn = stored.withdrawn();
    slot.closed_withdrawn = stored.closed_withdrawn();
    slot.left_out_of.insert(stored.left_out_of().begin(), stored.left_out_of().end());
    for (uint32_t block : stored.dense_blocks()) {
      if (block >= shape_.dense_blocks) {
        return absl::DataLossError(
            absl::StrCat("stored ledger names block ", block, " of ", shape_.dense_blocks));
      }
      if (!Pushes(i, block)) {
        return absl::DataLossError(absl::StrCat("stored ledger has a push of block ", block,
                                                " by slot ", i, ", which does not push it"));
      }
      if (MicroBatchesIn(i, block) == shape_.micro_batches) {
        return absl::DataLossError(absl::StrCat("stored ledger names block ", block,
                                                " more often than ", shape_.micro_batches,
                                                " times"));
      }
      AddBlock(i, block);
    }
    for (size_t table = 0; table < slot.chunks.size(); ++table) {
      const auto& chunks = stored.chunks(table).chunks();
      slot.chunks[table].insert(chunks.begin(), chunks.end());
    }
  }
  Recount();
  return absl::OkStatus();
}

}  // namespace muster
