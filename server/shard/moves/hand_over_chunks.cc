#include "server/shard/moves/hand_over_chunks.h"

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/base/status_macros.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {
namespace {

// Bytes of a hand-over chunk, unless one value or record is larger.
constexpr size_t kChunkBytes = 1 << 20;
// Bytes of values written to the store, and of records synced in the log, at once.
constexpr size_t kBatchBytes = 8 << 20;

}  // namespace

void HandOverContents::Clear() {
  values_ = 0;
  records_ = 0;
  fingerprint_ = std::make_unique<FingerprintStream>();
}

void HandOverContents::AddValue(uint32_t table, uint64_t key, absl::Span<const std::byte> value) {
  ++values_;
  fingerprint_->Add(&table, sizeof(table));
  fingerprint_->Add(&key, sizeof(key));
  fingerprint_->Add(value.data(), value.size());
}

void HandOverContents::AddRecord(uint64_t lsn, absl::Span<const std::byte> header,
                                 absl::Span<const std::byte> payload) {
  ++records_;
  fingerprint_->Add(&lsn, sizeof(lsn));
  fingerprint_->Add(header.data(), header.size());
  fingerprint_->Add(payload.data(), payload.size());
}

void HandOverContents::Save(v1::HandOverEnd& end) const {
  end.set_values(values_);
  end.set_records(records_);
  end.set_fingerprint(fingerprint_->Finish());
}

bool HandOverContents::Equals(const v1::HandOverEnd& end) const {
  return end.values() == values_ && end.records() == records_ &&
         end.fingerprint() == fingerprint_->Finish();
}

absl::Status HandOverSender::Begin(const v1::PartitionState& state, uint32_t sparse_tables) {
  chunk_.Clear();
  bytes_ = 0;
  contents_.Clear();
  begun_ = true;
  state_ = state;
  next_lsn_ = state.lsn() + 1;
  v1::HandOverChunk restart;
  restart.set_restart(true);
  restart.set_table(sparse_tables);
  return send_(restart);
}

absl::Status HandOverSender::Value(uint32_t table, uint64_t key,
                                   absl::Span<const std::byte> value) {
  if (chunk_.records_size() > 0 || (chunk_.keys_size() > 0 && chunk_.table() != table)) {
    MUSTER_RETURN_IF_ERROR(Flush());
  }
  contents_.AddValue(table, key, value);
  chunk_.set_table(table);
  chunk_.add_keys(key);
  chunk_.add_values(std::string(AsText(value)));
  bytes_ += value.size();
  return bytes_ < kChunkBytes ? absl::OkStatus() : Flush();
}

absl::Status HandOverSender::Record(uint64_t lsn, absl::Span<const std::byte> header,
                                    absl::Span<const std::byte> payload) {
  if (chunk_.keys_size() > 0) MUSTER_RETURN_IF_ERROR(Flush());
  contents_.AddRecord(lsn, header, payload);
  if (chunk_.records_size() == 0) chunk_.set_first_lsn(lsn);
  v1::LoggedRecord& record = *chunk_.add_records();
  record.set_header(std::string(AsText(header)));
  record.set_payload(std::string(AsText(payload)));
  next_lsn_ = lsn + 1;
  bytes_ += header.size() + payload.size();
  return bytes_ < kChunkBytes ? absl::OkStatus() : Flush();
}

absl::Status HandOverSender::End(const std::string& tables) {
  MUSTER_RETURN_IF_ERROR(Flush());
  v1::HandOverEnd& end = *chunk_.mutable_end();
  end.set_state(state_.SerializeAsString());
  end.set_last_lsn(next_lsn_ - 1);
  contents_.Save(end);
  if (!end.mutable_tables()->ParseFromString(tables)) end.clear_tables();
  return send_(chunk_);
}

absl::Status HandOverSender::Flush() {
  if (bytes_ == 0 && chunk_.keys_size() == 0 && chunk_.records_size() == 0) {
    return absl::OkStatus();
  }
  if (!permitted_()) {
    return absl::UnavailableError(absl::StrCat("the move of ", partition_.Name(), " was given up"));
  }
  const absl::Status status = send_(chunk_);
  chunk_.Clear();
  bytes_ = 0;
  return status;
}

absl::Status HandOverReceiver::Add(const v1::HandOverChunk& chunk) {
  if (chunk.restart()) {
    log_.reset();
    unsynced_bytes_ = 0;
    contents_.Clear();
    v1::PartitionState partial = partition_.NotHere(chunk.table());
    partial.set_adopted_term(move_.term);
    MUSTER_RETURN_IF_ERROR(partition_.Replace(partial));
    sparse_tables_ = chunk.table();
    return absl::OkStatus();
  }
  if (chunk.keys_size() != chunk.values_size()) {
    return absl::DataLossError(absl::StrCat("a part of ", partition_.Name(), " has ",
                                            chunk.keys_size(), " keys for ", chunk.values_size(),
                                            " values"));
  }
  MUSTER_RETURN_IF_ERROR(AddValues(chunk));
  for (int i = 0; i < chunk.records_size(); ++i) {
    MUSTER_RETURN_IF_ERROR(AddRecord(chunk.first_lsn() + i, chunk.records(i)));
  }
  if (chunk.has_end()) end_ = chunk.end();
  return absl::OkStatus();
}

absl::StatusOr<v1::PartitionState> HandOverReceiver::Finish() {
  if (!end_.has_value()) {
    return absl::UnavailableError(absl::StrCat(partition_.Name(), " did not arrive whole"));
  }
  v1::PartitionState state;
  if (!contents_.Equals(*end_) || !state.ParseFromString(end_->state())) {
    return absl::UnavailableError(absl::StrCat(partition_.Name(), " was damaged on the way"));
  }
  if (log_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(log_, partition_.NewLog(state.lsn() + 1));
  }
  if (log_->first_lsn() != state.lsn() + 1 || log_->next_lsn() != end_->last_lsn() + 1) {
    return absl::UnavailableError(absl::StrCat(
        partition_.Name(), " arrived with records ", log_->first_lsn(), " to ",
        log_->next_lsn() - 1, " of its log, expected ", state.lsn() + 1, " to ", end_->last_lsn()));
  }
  MUSTER_RETURN_IF_ERROR(log_->Sync());
  log_.reset();
  state.set_adopted_term(move_.term);
  state.set_sparse_tables(sparse_tables_);
  return state;
}

absl::Status HandOverReceiver::AddValues(const v1::HandOverChunk& chunk) {
  StoreBatch batch(move_.job_id);
  size_t bytes = 0;
  for (int i = 0; i < chunk.keys_size(); ++i) {
    const absl::Span<const std::byte> value = AsBytes(chunk.values(i));
    contents_.AddValue(chunk.table(), chunk.keys(i), value);
    batch.Put(chunk.table(), move_.partition, chunk.keys(i), value);
    bytes += value.size();
    if (bytes < kBatchBytes && i + 1 < chunk.keys_size()) continue;
    MUSTER_RETURN_IF_ERROR(store_.Write(batch, ParameterStore::Durability::kBuffered));
    batch = StoreBatch(move_.job_id);
    bytes = 0;
  }
  return absl::OkStatus();
}

absl::Status HandOverReceiver::AddRecord(uint64_t lsn, const v1::LoggedRecord& record) {
  if (log_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(log_, partition_.NewLog(lsn));
  }
  if (log_->next_lsn() != lsn) {
    return absl::UnavailableError(absl::StrCat("record ", lsn, " of the log of ", partition_.Name(),
                                               " arrived, expected ", log_->next_lsn()));
  }
  contents_.AddRecord(lsn, AsBytes(record.header()), AsBytes(record.payload()));
  MUSTER_RETURN_IF_ERROR(
      log_->Append(AsBytes(record.header()), Payload({AsBytes(record.payload())}, nullptr))
          .status());
  unsynced_bytes_ += record.header().size() + record.payload().size();
  if (unsynced_bytes_ < kBatchBytes) return absl::OkStatus();
  unsynced_bytes_ = 0;
  return log_->Sync();
}

}  // namespace muster
