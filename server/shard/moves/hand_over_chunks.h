#ifndef MUSTER_SERVER_SHARD_MOVES_HAND_OVER_CHUNKS_H_
#define MUSTER_SERVER_SHARD_MOVES_HAND_OVER_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/moves/moved_partition.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {

// Count and fingerprint of what all hand-over chunks hold, in order, by which both ends compare.
class HandOverContents {
 public:
  void Clear();
  void AddValue(uint32_t table, uint64_t key, absl::Span<const std::byte> value);
  void AddRecord(uint64_t lsn, absl::Span<const std::byte> header,
                 absl::Span<const std::byte> payload);
  void Save(v1::HandOverEnd& end) const;
  bool Equals(const v1::HandOverEnd& end) const;

 private:
  uint64_t values_ = 0;
  uint64_t records_ = 0;
  std::unique_ptr<FingerprintStream> fingerprint_ = std::make_unique<FingerprintStream>();
};

// Gathers a partition's values and log records into hand-over chunks of about 1 MiB, and remembers
// what it has sent. UNAVAILABLE, of any call: the move was given up. For one thread.
class HandOverSender {
 public:
  // `permitted` is called before every hand-over chunk. All arguments outlive the sender.
  HandOverSender(const MovedPartition& partition, std::function<bool()> permitted,
                 PartitionMover::ChunkSink send)
      : partition_(partition), permitted_(std::move(permitted)), send_(send) {}

  // Begins, or begins again, with the values of this state, whose log follows.
  absl::Status Begin(const v1::PartitionState& state, uint32_t sparse_tables);
  bool begun() const { return begun_; }
  // Returns the LSN of the next log record to send.
  uint64_t next_lsn() const { return next_lsn_; }

  absl::Status Value(uint32_t table, uint64_t key, absl::Span<const std::byte> value);
  // REQUIRES: lsn is next_lsn().
  absl::Status Record(uint64_t lsn, absl::Span<const std::byte> header,
                      absl::Span<const std::byte> payload);
  // Ends the hand-over. `tables` is a serialised OpenTablesRequest, or empty.
  absl::Status End(const std::string& tables);

 private:
  absl::Status Flush();

  const MovedPartition& partition_;
  const std::function<bool()> permitted_;
  const PartitionMover::ChunkSink send_;
  v1::HandOverChunk chunk_;
  size_t bytes_ = 0;
  HandOverContents contents_;
  bool begun_ = false;
  v1::PartitionState state_;
  uint64_t next_lsn_ = 0;
};

// Writes what a sender sent, of which it holds a few MiB in memory. For one thread.
class HandOverReceiver {
 public:
  // All arguments outlive the receiver.
  HandOverReceiver(const MovedPartition& partition, const PartitionMove& move,
                   ParameterStore& store)
      : partition_(partition), move_(move), store_(store) {}

  absl::Status Add(const v1::HandOverChunk& chunk);

  // Makes all durable except the state, which is returned. UNAVAILABLE: not all has come.
  absl::StatusOr<v1::PartitionState> Finish();

  // Returns the request that opened the job at the sender; null: not open there, or no end yet.
  const v1::OpenTablesRequest* tables() const {
    return end_.has_value() && end_->has_tables() ? &end_->tables() : nullptr;
  }

 private:
  absl::Status AddValues(const v1::HandOverChunk& chunk);
  absl::Status AddRecord(uint64_t lsn, const v1::LoggedRecord& record);

  const MovedPartition& partition_;
  const PartitionMove& move_;
  ParameterStore& store_;
  HandOverContents contents_;
  uint32_t sparse_tables_ = 0;
  std::unique_ptr<MutationLog> log_;
  // Bytes of records since the log's last sync; until then they may be in memory.
  size_t unsynced_bytes_ = 0;
  std::optional<v1::HandOverEnd> end_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_MOVES_HAND_OVER_CHUNKS_H_
