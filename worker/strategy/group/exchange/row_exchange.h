#ifndef MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ROW_EXCHANGE_H_
#define MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ROW_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/sparse_rows.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/exchange/array_exchange.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/shard_state.h"

namespace muster {

struct RowExchangeOptions {
  // The timeout of each call, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // Waits for the calls.
  WaitForWork wait = WaitForever;
};

// Moves rows of sparse tables between ranks. In a shard group of S ranks each rank owns the rows of
// some partitions (ShardState::OwnerOf). Ranks that need a micro-batch's rows ask the owners, and
// once a step they send the owners their gradients:
//
//   AskFor, LookUp   all-to-all of the numbers of keys, of the keys, and of the rows back
//   SendToOwners     all-to-all of the numbers of keys, of the keys, and of the gradients
//   AddReplicas      between the R ranks that own the same rows: all-gather of the numbers of keys;
//                    then for each table with any keys all-gather of the keys, and of the sums
//
// With one shard every rank owns all rows and asks nobody, and all ranks are replicas.
//
// With T tables, a rank sends 8 · T · (S - 1) bytes of numbers for each micro-batch and each step;
// 8 bytes for each key of a micro-batch that another rank owns; 4 · dim bytes for each row that
// others ask it for; and 8 + 4 · dim bytes for each of the step's keys that another rank owns.
// With replicas a rank receives 8 · T · (R - 1) bytes, and 8 + 4 · dim for each key of each of the
// others, besides.
//
// Gradients are summed over a rank's micro-batches first. Owners add them up in order of rank, and
// keep the order in which keys came. So one shard group has the same bits whatever S is, and those
// of servers that sum by slot. Several groups each sum their own ranks' rows before the groups'
// sums are added up in order of group.
//
// A shard group's calls are made by a communicator of their own, so that rows do not wait for dense
// weights and gradients that travel meanwhile. All ranks of a group make the same calls, without
// keys if need be. Errors are the communicators'. Used by one thread.
class RowExchange {
 public:
  // `state` is this rank's shard, which outlives the exchange.
  RowExchange(const ShardState& state, const RowExchangeOptions& options);
  ~RowExchange();

  // Takes over the ranks' groups, which must stay until Leave. A collective call of all ranks.
  absl::Status Join(RankGroups& groups);
  // Gives the groups up. Ends a look-up that is under way, on all ranks, with Aborted. Sums stay.
  void Leave();

  // Forgets the gradients of the step before, and begins to count the step's bytes.
  void BeginStep();

  // Starts to ask for the rows of all tables' keys.
  void AskFor(absl::Span<const SparseRows> tables);
  // Fills SparseRows::rows. REQUIRES: AskFor was called with the same keys before.
  absl::Status LookUp(absl::Span<SparseRows> tables);

  // Adds a micro-batch's gradients to those of the step.
  void Add(absl::Span<const SparseRows> tables);
  // Sends the step's gradients to the owners.
  absl::Status SendToOwners();
  // Adds up the sums of the ranks that own the same rows.
  absl::Status AddReplicas();
  // Returns the step's gradients of the rows that this rank owns, by table, summed over all ranks.
  // REQUIRES: SendToOwners and then AddReplicas succeeded.
  absl::Span<const RowSum> sums() const { return sums_; }

  // Returns the bytes that the shard group's calls moved since BeginStep.
  CollectiveTraffic step_traffic() const;
  // Returns the record of the shard group's calls; null if it makes none.
  const FlightRecorder* recorder() const {
    return owners_ == nullptr ? nullptr : &owners_->recorder();
  }

 private:
  // Keys of all tables, shard after shard and table after table.
  struct Keys {
    // Their numbers, [shards, tables].
    std::vector<int64_t> counts;
    std::vector<uint64_t> keys;
  };
  // Keys that go to their owners, in this order.
  struct DealtKeys {
    Keys sent;
    // The position of each key among its table's.
    std::vector<uint32_t> positions;
  };

  // Deals each table's keys to their owners.
  void Deal(absl::Span<const absl::Span<const uint64_t>> tables, DealtKeys& dealt);
  // Returns the calls of the shard group.
  ArrayExchange owners() const { return {*owners_, options_.timeout, options_.wait}; }
  // Starts to exchange the numbers of keys, which come to received_.
  std::shared_ptr<Work> StartCounts(const Keys& sent) {
    return owners().StartNumbers(sent.counts, received_.counts, "numbers of rows");
  }
  // Exchanges the keys, once their numbers have come. The keys of other ranks, and this rank's own,
  // come to received_.
  absl::Status ExchangeKeys(const Keys& sent);
  // Exchanges arrays of rows, as long as these keys: of `out_keys` for those of `in_keys`.
  absl::Status ExchangeRows(const Keys& out_keys, const Keys& in_keys, absl::string_view label) {
    return owners().Arrays(rows_out_, Floats(out_keys), rows_in_, Floats(in_keys), label);
  }
  // Returns the elements of the keys' rows, by shard.
  std::vector<size_t> Floats(const Keys& keys) const;
  // Calls `use(table, keys, floats)` for each run of keys of one shard and table, in order, and the
  // place of their rows among all.
  template <typename Use>
  void ForEachRun(const Keys& keys, Use use) const;
  absl::Status Run(Communicator& communicator, const CollectiveCall& call);
  absl::Status GatherTable(absl::Span<const size_t> counts, const RowSum& mine, RowSum& sum);

  const ShardState& state_;
  const RowExchangeOptions options_;
  const size_t shards_;
  std::vector<size_t> dims_;

  // The communicator of the shard group's rows; null with one shard, or without tables.
  std::unique_ptr<Communicator> owners_;
  // The ranks that own the same rows; null if there are no others, or no tables.
  Communicator* replicas_ = nullptr;
  // The traffic when the step began.
  CollectiveTraffic counted_;

  // The look-up under way.
  std::shared_ptr<Work> asking_;
  DealtKeys asked_;
  // The step's gradients by table: this rank's; all ranks' of the shard group; and all groups'.
  std::vector<RowSum> own_;
  std::vector<RowSum> owned_;
  std::vector<RowSum> all_;
  // Those of the above that are summed over all ranks.
  absl::Span<const RowSum> sums_;
  DealtKeys pushed_;
  // What a call brings, and rows on their way; used again each time.
  Keys received_;
  std::vector<float> rows_out_;
  std::vector<float> rows_in_;
  std::vector<uint32_t> owner_of_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_EXCHANGE_ROW_EXCHANGE_H_
