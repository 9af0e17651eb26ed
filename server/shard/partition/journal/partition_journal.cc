#include "server/shard/partition/journal/partition_journal.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/tables/stored_record.h"

namespace muster {
namespace {

constexpr uint32_t kFormatVersion = 1;
// Bytes written to the store at once.
constexpr size_t kBatchBytes = 8 << 20;
constexpr uint32_t kDenseTable = 0;

// Gathers changes of one job's values and writes them in batches of a few MiB, buffered: the state
// that follows syncs them all.
class ValueWriter {
 public:
  ValueWriter(ParameterStore& store, const std::string& job_id, uint32_t partition)
      : store_(store), partition_(partition), job_id_(job_id), batch_(job_id) {}

  absl::Status Put(uint32_t table, uint64_t key, std::vector<std::byte> value) {
    bytes_ += value.size();
    values_.push_back(std::move(value));
    batch_.Put(table, partition_, key, values_.back());
    return bytes_ < kBatchBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Flush() {
    const absl::Status status = store_.Write(batch_, ParameterStore::Durability::kBuffered);
    batch_ = StoreBatch(job_id_);
    values_.clear();
    bytes_ = 0;
    return status;
  }

 private:
  ParameterStore& store_;
  const uint32_t partition_;
  const std::string job_id_;
  StoreBatch batch_;
  // A deque, so that values stay where the batch found them.
  std::deque<std::vector<std::byte>> values_;
  size_t bytes_ = 0;
};

}  // namespace

PartitionJournal::PartitionJournal(ParameterStore& store, std::unique_ptr<MutationLog> log)
    : store_(store), log_(std::move(log)) {}

absl::StatusOr<std::unique_ptr<PartitionJournal>> PartitionJournal::Open(
    ParameterStore& store, std::string log_directory, const MutationLog::Options& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<MutationLog> log,
                          MutationLog::Open(std::move(log_directory), options));
  return std::unique_ptr<PartitionJournal>(new PartitionJournal(store, std::move(log)));
}

absl::StatusOr<uint64_t> PartitionJournal::Append(const v1::ExchangeRequest& request,
                                                  const Payload& payload, Payload* copy) {
  const std::string header = request.SerializeAsString();
  MUSTER_ASSIGN_OR_RETURN(const uint64_t lsn, log_->Append(AsBytes(header), payload, copy));
  bytes_since_image_ += header.size() + payload.size();
  return lsn;
}

absl::Status PartitionJournal::WriteImage(PartitionTables& tables, const v1::PartitionState& state,
                                          Extent extent, absl::FunctionRef<bool()> written) {
  const std::string& job_id = tables.job->job_id();
  const auto taken = [&](uint64_t lsn) { return extent == Extent::kAll || lsn > image_lsn_; };
  ValueWriter writer(store_, job_id, tables.partition);
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    const DenseTable::Block& block = tables.dense.block(i);
    if (!taken(block.lsn)) continue;
    MUSTER_RETURN_IF_ERROR(
        writer.Put(kDenseTable, i,
                   EncodeRecord({.lsn = block.lsn, .steps = block.steps, .last_use = 0},
                                block.weights.Peek(), block.state_values())));
  }
  MUSTER_RETURN_IF_ERROR(writer.Flush());
  for (TieredTable& table : tables.sparse) MUSTER_RETURN_IF_ERROR(table.StoreChanged());
  if (!written()) return absl::OkStatus();

  v1::PartitionState stored = state;
  stored.set_format_version(kFormatVersion);
  const std::string meta = stored.SerializeAsString();
  StoreBatch batch(job_id);
  batch.PutMeta(tables.partition, AsBytes(meta));
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, ParameterStore::Durability::kSync));
  image_lsn_ = state.lsn();
  bytes_since_image_ = 0;
  return log_->TruncateBefore(image_lsn_ + 1);
}

absl::StatusOr<uint64_t> PartitionJournal::ReadImage(uint64_t lsn, PartitionTables& tables) {
  image_lsn_ = lsn;
  uint64_t highest = lsn;
  const std::string& job_id = tables.job->job_id();
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(job_id, kDenseTable, tables.partition,
                  [&](uint64_t key, ParameterStore::Value value) -> absl::Status {
                    if (key >= tables.dense.size()) {
                      return absl::DataLossError(absl::StrCat("job ", job_id, ", partition ",
                                                              tables.partition, ": stored block ",
                                                              key, " of ", tables.dense.size()));
                    }
                    DenseTable::Block& block = tables.dense.block(key);
                    StoredRecord record;
                    MUSTER_RETURN_IF_ERROR(
                        DecodeRecord(value, record, block.weights.Write(), block.state_values()));
                    block.lsn = record.lsn;
                    highest = std::max(highest, record.lsn);
                    block.steps = record.steps;
                    return absl::OkStatus();
                  }));
  for (TieredTable& table : tables.sparse) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t stored, table.Recover());
    highest = std::max(highest, stored);
  }
  return highest;
}

absl::Status PartitionJournal::Replay(uint64_t lsn, ReplayVisitor visitor) {
  return log_->Replay(
      lsn + 1,
      [&](uint64_t record, absl::Span<const std::byte> header,
          absl::Span<const std::byte> payload) -> absl::Status {
        bytes_since_image_ += header.size() + payload.size();
        auto request = std::make_shared<v1::ExchangeRequest>();
        if (!request->ParseFromArray(header.data(), header.size())) {
          return absl::DataLossError(absl::StrCat("log record ", record, " holds no request"));
        }
        // The values that wait for their clock's end outlast the log's window; memory that was
        // touched before is faster to copy to.
        const std::shared_ptr<float> copy =
            log_->memory().Take((payload.size() + sizeof(float) - 1) / sizeof(float));
        if (!payload.empty()) std::memcpy(copy.get(), payload.data(), payload.size());
        return visitor(record, std::move(request),
                       Payload({absl::MakeConstSpan(reinterpret_cast<const std::byte*>(copy.get()),
                                                    payload.size())},
                               copy));
      });
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadPartitionState(const ParameterStore& store,
                                                                       const std::string& job_id,
                                                                       uint32_t partition) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string> meta, store.GetMeta(job_id, partition));
  if (!meta.has_value()) return std::unique_ptr<v1::PartitionState>();
  auto state = std::make_unique<v1::PartitionState>();
  if (!state->ParseFromString(*meta)) {
    return absl::DataLossError(absl::StrCat("the stored state of partition ", partition, " of job ",
                                            job_id, " is damaged"));
  }
  if (state->format_version() > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the stored state of partition ", partition, " of job ", job_id, " has format version ",
        state->format_version(),
        ", written by a later release of Muster; this one reads formats up to ", kFormatVersion));
  }
  return state;
}

}  // namespace muster
