#include "server/shard/storage/mutation_log.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/parent_folder.h"

namespace muster {
namespace {

constexpr absl::string_view kSegmentSuffix = ".log";
constexpr absl::string_view kSparePrefix = "spare-";
// A file that is to become a segment.
constexpr absl::string_view kNewFile = "new";
// Its presence says that the log is being destroyed.
constexpr absl::string_view kDestroyedMark = "destroyed";
constexpr uint64_t kMaxPartBytes = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMinSegmentBytes = 4096;
// Bytes kept for the next records where the options bring no pool.
constexpr size_t kMemoryBytes = 16 << 20;

absl::Status DestroyFiles(LogFileSystem& files, const std::string& directory,
                          const std::vector<std::string>& names) {
  MUSTER_RETURN_IF_ERROR(
      files.Open(absl::StrCat(directory, "/", kDestroyedMark), LogFileSystem::Mode::kCreate)
          .status());
  MUSTER_RETURN_IF_ERROR(files.SyncDirectory(directory));
  for (const std::string& name : names) {
    if (name == kDestroyedMark) continue;
    MUSTER_RETURN_IF_ERROR(files.Remove(absl::StrCat(directory, "/", name)));
  }
  MUSTER_RETURN_IF_ERROR(files.SyncDirectory(directory));
  return files.Remove(absl::StrCat(directory, "/", kDestroyedMark));
}

uint64_t WholeBlocks(uint64_t bytes) {
  return (bytes + LogFile::kBlockBytes - 1) / LogFile::kBlockBytes * LogFile::kBlockBytes;
}

// Returns the zeros after a header or payload, up to the next multiple of 8 bytes.
absl::Span<const std::byte> Padding(uint64_t bytes) {
  static constexpr std::array<std::byte, 8> kZeros{};
  return absl::MakeConstSpan(kZeros).first(LogPaddingBytes(bytes));
}

absl::Status Damaged(const std::string& path, uint64_t offset, uint64_t lsn) {
  return absl::DataLossError(
      absl::StrCat("log segment ", path, ": record ", lsn, " at offset ", offset,
                   " was on disk and is damaged now; restore the job from its last checkpoint"));
}

}  // namespace

MutationLog::MutationLog(std::string directory, Options options, LogFileSystem& file_system)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      file_system_(file_system),
      memory_(options_.memory != nullptr ? options_.memory : BufferPool::Create(kMemoryBytes)) {}

MutationLog::~MutationLog() {
  if (sync_ != nullptr) sync_->Cancel();
}

absl::StatusOr<std::unique_ptr<MutationLog>> MutationLog::Open(std::string directory,
                                                               Options options) {
  if (options.segment_bytes < kMinSegmentBytes) {
    return absl::InvalidArgumentError(absl::StrCat("segments of ", options.segment_bytes,
                                                   " bytes asked for the log in ", directory,
                                                   "; at least ", kMinSegmentBytes, " are needed"));
  }
  LogFileSystem& file_system =
      options.file_system != nullptr ? *options.file_system : LogFileSystem::Posix();
  options.segment_bytes = WholeBlocks(options.segment_bytes);
  std::unique_ptr<MutationLog> log(new MutationLog(std::move(directory), options, file_system));
  MUSTER_RETURN_IF_ERROR(log->Recover());
  return log;
}

absl::Status MutationLog::Destroy(absl::string_view directory, LogFileSystem* file_system) {
  LogFileSystem& files = file_system != nullptr ? *file_system : LogFileSystem::Posix();
  const std::string path(directory);
  absl::StatusOr<std::vector<std::string>> names = files.List(path);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(names.status());
  MUSTER_RETURN_IF_ERROR(DestroyFiles(files, path, *names));
  MUSTER_RETURN_IF_ERROR(files.Remove(path));
  return files.SyncDirectory(ParentFolder(path));
}

absl::Status MutationLog::Recover() {
  MUSTER_RETURN_IF_ERROR(file_system_.CreateDirectory(directory_));
  // The names found may be those of an earlier process that failed before it could make them
  // durable.
  MUSTER_RETURN_IF_ERROR(file_system_.SyncDirectory(ParentFolder(directory_)));
  MUSTER_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> names, file_system_.List(directory_));
  if (std::find(names.begin(), names.end(), kDestroyedMark) != names.end()) {
    MUSTER_RETURN_IF_ERROR(DestroyFiles(file_system_, directory_, names));
    names.clear();
  }
  std::vector<uint64_t> ids;
  for (const std::string& name : names) {
    absl::string_view rest = name;
    uint64_t number = 0;
    if (absl::ConsumeSuffix(&rest, kSegmentSuffix) && absl::SimpleAtoi(rest, &number)) {
      ids.push_back(number);
    } else if (absl::ConsumePrefix(&rest, kSparePrefix) && absl::SimpleAtoi(rest, &number)) {
      spares_.push_back(number);
      next_spare_ = std::max(next_spare_, number + 1);
    }
  }
  std::sort(ids.begin(), ids.end());
  if (ids.empty()) {
    if (!spares_.empty()) {
      return absl::DataLossError(absl::StrCat("the log in ", directory_, " has ", spares_.size(),
                                              " spare files but no segment; its segments were "
                                              "deleted; restore the job from its last checkpoint"));
    }
    next_lsn_ = options_.first_lsn;
    synced_lsn_ = next_lsn_ - 1;
    return AddSegment(0);
  }
  MUSTER_RETURN_IF_ERROR(LoadSegments(ids));
  return RecoverTail();
}

absl::Status MutationLog::LoadSegments(const std::vector<uint64_t>& ids) {
  for (const uint64_t id : ids) {
    const std::string path = SegmentPath(id);
    if (!segments_.empty() && segments_.back().id + 1 != id) {
      return absl::DataLossError(absl::StrCat("log segment ", SegmentPath(segments_.back().id + 1),
                                              " is missing, the next one is ", path,
                                              "; restore the job from its last checkpoint"));
    }
    MUSTER_ASSIGN_OR_RETURN(active_, file_system_.Open(path, LogFileSystem::Mode::kOpen));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t capacity, active_->Size());
    std::array<std::byte, kLogSegmentHeaderBytes> bytes;
    MUSTER_ASSIGN_OR_RETURN(const size_t read, active_->Read(0, absl::MakeSpan(bytes)));
    MUSTER_ASSIGN_OR_RETURN(const LogSegmentHeader header,
                            DecodeLogSegmentHeader(absl::MakeConstSpan(bytes).first(read), path));
    if (header.segment_id != id) {
      return absl::DataLossError(absl::StrCat("log segment ", path, " says it is segment ",
                                              header.segment_id,
                                              "; restore the job from its last checkpoint"));
    }
    if (capacity < header.file_bytes) {
      return absl::DataLossError(absl::StrCat("log segment ", path, " has ", capacity,
                                              " bytes, and had ", header.file_bytes,
                                              ": it was cut, and records may be missing; restore "
                                              "the job from its last checkpoint"));
    }
    if (!segments_.empty()) segments_.back().used = header.previous_bytes;
    segments_.push_back({.id = id, .first_lsn = header.first_lsn, .capacity = capacity});
  }
  return absl::OkStatus();
}

absl::Status MutationLog::RecoverTail() {
  Segment& segment = segments_.back();
  LogSegmentReader reader(*active_, segment.id, segment.capacity);
  uint64_t offset = kLogSegmentHeaderBytes;
  uint64_t lsn = segment.first_lsn;
  uint64_t synced = lsn - 1;
  // LSN and offset of the records that no later record calls synced.
  std::deque<std::pair<uint64_t, uint64_t>> unsynced;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::optional<LogSegmentReader::Record> record,
                            reader.ReadAt(offset));
    if (!record.has_value() || record->head.lsn != lsn) break;
    synced = std::max(synced, record->head.synced_lsn);
    unsynced.emplace_back(lsn++, offset);
    while (!unsynced.empty() && unsynced.front().first <= synced) unsynced.pop_front();
    offset = record->end();
  }
  segment.used = offset - kLogSegmentHeaderBytes;
  next_lsn_ = lsn;

  // Good records behind the end must go: one of the same length as a lost one, appended in its
  // place, would join them to the log again.
  std::vector<uint64_t> leftovers;
  for (uint64_t at = offset;;) {
    MUSTER_ASSIGN_OR_RETURN(const std::optional<LogSegmentReader::Record> record,
                            reader.Search(at, lsn - 1));
    if (!record.has_value()) break;
    if (record->head.synced_lsn >= lsn) return Damaged(SegmentPath(segment.id), offset, lsn);
    leftovers.push_back(record->offset);
    at = record->end();
  }
  static constexpr std::array<std::byte, kLogRecordHeadBytes> kZeros{};
  for (const uint64_t at : leftovers) {
    MUSTER_RETURN_IF_ERROR(WriteAll(at, {absl::MakeConstSpan(kZeros)}));
  }

  // What is read back may be in memory only, even after a flush that failed in an earlier process:
  // written again, it is sure to be flushed.
  if (!unsynced.empty()) {
    const uint64_t begin = unsynced.front().second;
    std::vector<std::byte> bytes(std::min<uint64_t>(offset - begin, 1 << 20));
    for (uint64_t at = begin; at < offset;) {
      MUSTER_ASSIGN_OR_RETURN(
          const size_t read, active_->Read(at, absl::MakeSpan(bytes).first(
                                                   std::min<uint64_t>(bytes.size(), offset - at))));
      if (read == 0) return Damaged(SegmentPath(segment.id), at, lsn);
      MUSTER_RETURN_IF_ERROR(WriteAll(at, {absl::MakeConstSpan(bytes).first(read)}));
      at += read;
    }
  }
  MUSTER_RETURN_IF_ERROR(active_->Sync());
  synced_lsn_ = next_lsn_ - 1;
  stages_ = active_->keeps_space();
  if (!stages_) return absl::OkStatus();
  tail_.resize(offset % LogFile::kBlockBytes);
  MUSTER_ASSIGN_OR_RETURN(const size_t read,
                          active_->Read(offset - tail_.size(), absl::MakeSpan(tail_)));
  return read == tail_.size() ? absl::OkStatus()
                              : Damaged(SegmentPath(segment.id), offset - tail_.size(), lsn - 1);
}

absl::StatusOr<uint64_t> MutationLog::Append(absl::Span<const std::byte> header,
                                             const Payload& payload, Payload* copy) {
  MUSTER_RETURN_IF_ERROR(failed_);
  if (header.size() > kMaxPartBytes || payload.size() > kMaxPartBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a log record with a header of ", header.size(), " and a payload of ",
                     payload.size(), " bytes; each may have ", kMaxPartBytes, " at most"));
  }
  const uint64_t record_bytes = LogRecordBytes(header.size(), payload.size());
  if (kLogSegmentHeaderBytes + segments_.back().used + record_bytes > segments_.back().capacity) {
    MUSTER_RETURN_IF_ERROR(AddSegment(record_bytes));
  }
  Segment& segment = segments_.back();

  if (stages_) {
    Stage(header, payload, copy);
  } else {
    FingerprintStream checksum;
    checksum.Add(header.data(), header.size());
    for (const Payload::Span& span : payload.spans()) checksum.Add(span.data(), span.size());
    std::array<std::byte, kLogRecordHeadBytes> head;
    EncodeLogRecordHead({.header_bytes = static_cast<uint32_t>(header.size()),
                         .payload_bytes = static_cast<uint32_t>(payload.size()),
                         .lsn = next_lsn_,
                         .synced_lsn = synced_lsn_,
                         .checksum = checksum.Finish()},
                        segment.id, absl::MakeSpan(head));
    std::vector<absl::Span<const std::byte>> spans;
    spans.reserve(payload.spans().size() + 4);
    spans.push_back(absl::MakeConstSpan(head));
    spans.push_back(header);
    spans.push_back(Padding(header.size()));
    spans.insert(spans.end(), payload.spans().begin(), payload.spans().end());
    spans.push_back(Padding(payload.size()));
    MUSTER_RETURN_IF_ERROR(WriteAll(kLogSegmentHeaderBytes + segment.used, std::move(spans)));
  }
  segment.used += record_bytes;
  return next_lsn_++;
}

void MutationLog::Stage(absl::Span<const std::byte> header, const Payload& payload, Payload* copy) {
  const Segment& segment = segments_.back();
  if (stage_ == nullptr) {
    stage_ = std::make_unique<LogStage>(*memory_, kLogSegmentHeaderBytes + segment.used, tail_);
  }
  stage_->Reserve(LogRecordBytes(header.size(), payload.size()));
  const uint64_t begin = stage_->end();
  std::array<std::byte, kLogRecordHeadBytes> head{};
  stage_->Append(absl::MakeConstSpan(head));
  FingerprintStream checksum;
  stage_->Append(header, checksum);
  stage_->Append(Padding(header.size()));
  const uint64_t payload_begin = stage_->end();
  for (const Payload::Span& span : payload.spans()) stage_->Append(span, checksum);
  stage_->Append(Padding(payload.size()));
  EncodeLogRecordHead({.header_bytes = static_cast<uint32_t>(header.size()),
                       .payload_bytes = static_cast<uint32_t>(payload.size()),
                       .lsn = next_lsn_,
                       .synced_lsn = synced_lsn_,
                       .checksum = checksum.Finish()},
                      segment.id, absl::MakeSpan(head));
  stage_->Overwrite(begin, absl::MakeConstSpan(head));
  if (copy != nullptr && HoldsCopyOf(payload.size())) {
    *copy = stage_->SharedBytes(payload_begin, payload.size());
  }
}

std::shared_ptr<LogSync> MutationLog::StartSync() {
  if (!failed_.ok() || sync_ != nullptr || synced_lsn_ + 1 == next_lsn_) return nullptr;
  if (stage_ != nullptr) tail_ = stage_->Tail();
  sync_ = std::make_shared<LogSync>(active_, std::move(stage_), next_lsn_ - 1);
  return sync_;
}

absl::Status MutationLog::FinishSync() {
  if (sync_ == nullptr) return failed_;
  const std::shared_ptr<LogSync> sync = std::move(sync_);
  return NoteSync(sync->Run(), sync->lsn());
}

absl::Status MutationLog::Sync() {
  MUSTER_RETURN_IF_ERROR(failed_);
  MUSTER_RETURN_IF_ERROR(FinishSync());
  StartSync();
  return FinishSync();
}

absl::Status MutationLog::NoteSync(const absl::Status& status, uint64_t lsn) {
  if (status.ok()) {
    synced_lsn_ = lsn;
  } else {
    failed_ = absl::FailedPreconditionError(absl::StrCat("the log in ", directory_,
                                                         " failed before (", status.message(),
                                                         "), so it takes no more; open it again"));
  }
  return status;
}

absl::Status MutationLog::Replay(uint64_t from_lsn, const Visitor& visitor) {
  if (from_lsn != 0 && from_lsn < first_lsn()) {
    return absl::OutOfRangeError(absl::StrCat("replay from record ", from_lsn, " of the log in ",
                                              directory_, ", whose first record is ", first_lsn(),
                                              "; the ones before were truncated"));
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const bool last = i + 1 == segments_.size();
    const uint64_t written_lsn = stages_ ? synced_lsn_ + 1 : next_lsn_;
    const uint64_t end_lsn = last ? written_lsn : segments_[i + 1].first_lsn;
    if (end_lsn <= from_lsn || end_lsn == segment.first_lsn) continue;
    const std::string path = SegmentPath(segment.id);
    std::unique_ptr<LogFile> file;
    if (!last) {
      MUSTER_ASSIGN_OR_RETURN(file, file_system_.Open(path, LogFileSystem::Mode::kOpen));
    }
    LogSegmentReader reader(last ? *active_ : *file, segment.id, segment.capacity);
    uint64_t offset = kLogSegmentHeaderBytes;
    for (uint64_t lsn = segment.first_lsn; lsn < end_lsn; ++lsn) {
      MUSTER_ASSIGN_OR_RETURN(const std::optional<LogSegmentReader::Record> record,
                              reader.ReadAt(offset));
      if (!record.has_value() || record->head.lsn != lsn) return Damaged(path, offset, lsn);
      if (lsn >= from_lsn) MUSTER_RETURN_IF_ERROR(visitor(lsn, record->header, record->payload));
      offset = record->end();
    }
  }
  return absl::OkStatus();
}

absl::Status MutationLog::TruncateBefore(uint64_t lsn) {
  MUSTER_RETURN_IF_ERROR(failed_);
  // The last segment stays: it says which LSN is next.
  while (segments_.size() > 1 && segments_[1].first_lsn <= lsn) {
    MUSTER_RETURN_IF_ERROR(ReleaseFirst());
  }
  return absl::OkStatus();
}

absl::Status MutationLog::ReleaseFirst() {
  const Segment segment = segments_.front();
  const bool keep =
      segment.capacity == options_.segment_bytes && spares_.size() < options_.spare_segments;
  const std::string path = SegmentPath(segment.id);
  MUSTER_RETURN_IF_ERROR(keep ? file_system_.Rename(path, SparePath(next_spare_))
                              : file_system_.Remove(path));
  segments_.pop_front();
  // One by one, so that a crash never leaves a gap between segments; and before the file is reused,
  // so that no other segment ever lies under the old name.
  MUSTER_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  if (keep) spares_.push_back(next_spare_++);
  return absl::OkStatus();
}

absl::Status MutationLog::AddSegment(uint64_t record_bytes) {
  // Only the last segment may have an end that is not on disk.
  if (!segments_.empty()) MUSTER_RETURN_IF_ERROR(Sync());
  Segment segment{
      .id = segments_.empty() ? 1 : segments_.back().id + 1,
      .first_lsn = next_lsn_,
      .capacity = std::max(options_.segment_bytes, kLogSegmentHeaderBytes + record_bytes)};
  const bool reuse = segment.capacity == options_.segment_bytes && !spares_.empty();
  const std::string path =
      reuse ? SparePath(spares_.back()) : absl::StrCat(directory_, "/", kNewFile);
  std::shared_ptr<LogFile> file;
  if (reuse) {
    MUSTER_ASSIGN_OR_RETURN(file, file_system_.Open(path, LogFileSystem::Mode::kOpen));
  } else {
    MUSTER_ASSIGN_OR_RETURN(file, file_system_.Open(path, LogFileSystem::Mode::kCreate));
    // Whole blocks are written there.
    const uint64_t bytes = file->keeps_space() ? WholeBlocks(segment.capacity) : segment.capacity;
    if (absl::Status status = file->Allocate(bytes); !status.ok()) {
      // The space it took may be what others need; the error to report is the first one.
      file_system_.Remove(path).IgnoreError();
      return status;
    }
  }
  if (reuse) {
    MUSTER_ASSIGN_OR_RETURN(segment.capacity, file->Size());
  }
  std::array<std::byte, kLogSegmentHeaderBytes> header;
  EncodeLogSegmentHeader({.segment_id = segment.id,
                          .first_lsn = segment.first_lsn,
                          .previous_bytes = segments_.empty() ? 0 : segments_.back().used,
                          .file_bytes = segment.capacity},
                         absl::MakeSpan(header));
  active_.swap(file);
  absl::Status status = WriteAll(0, {absl::MakeConstSpan(header)});
  if (status.ok()) status = active_->Sync();
  if (!status.ok()) {
    active_.swap(file);
    return status;
  }
  status = file_system_.Rename(path, SegmentPath(segment.id));
  if (status.ok()) status = file_system_.SyncDirectory(directory_);
  if (!status.ok()) {
    // Which of the two names the file has on disk is unknown now.
    failed_ = absl::FailedPreconditionError(absl::StrCat("the log in ", directory_,
                                                         " failed before (", status.message(),
                                                         "), so it takes no more; open it again"));
    active_.swap(file);
    return status;
  }
  if (reuse) spares_.pop_back();
  segments_.push_back(segment);
  stages_ = active_->keeps_space();
  tail_.assign(header.begin(), header.end());
  return absl::OkStatus();
}

absl::Status MutationLog::WriteAll(uint64_t offset,
                                   std::vector<absl::Span<const std::byte>> spans) {
  size_t first = 0;
  while (true) {
    while (first < spans.size() && spans[first].empty()) ++first;
    if (first == spans.size()) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(size_t written,
                            active_->Write(offset, absl::MakeConstSpan(spans).subspan(first)));
    offset += written;
    while (written > 0) {
      const size_t part = std::min(written, spans[first].size());
      spans[first].remove_prefix(part);
      written -= part;
      if (spans[first].empty()) ++first;
    }
  }
}

uint64_t MutationLog::bytes() const {
  uint64_t sum = 0;
  for (const Segment& segment : segments_) sum += segment.used;
  return sum;
}

std::string MutationLog::SegmentPath(uint64_t id) const {
  return absl::StrFormat("%s/%020d%s", directory_, id, kSegmentSuffix);
}

std::string MutationLog::SparePath(uint64_t number) const {
  return absl::StrCat(directory_, "/", kSparePrefix, number);
}

}  // namespace muster
