#include "server/coordinator/history/stored_history.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/series_proto.h"
#include "proto/job_record.pb.h"
#include "proto/metrics.pb.h"

namespace muster {
namespace {

constexpr uint32_t kFormatVersion = 1;
// Changes may always take this much, so that short histories are not stored again and again.
constexpr size_t kFewBytes = 64 << 10;

template <typename Record>
absl::Status Parse(const std::string& job_id, absl::string_view bytes, Record& record) {
  if (!record.ParseFromArray(bytes.data(), bytes.size())) {
    return absl::DataLossError(
        absl::StrCat("a stored record of the history of job ", job_id, " is unreadable"));
  }
  if (record.format_version() > kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a stored record of the history of job ", job_id, " has format version ",
                     record.format_version(), "; this program reads up to ", kFormatVersion,
                     ": run a newer release"));
  }
  return absl::OkStatus();
}

template <typename Points>
void PutPoints(absl::Span<const SeriesPoint> points, Points& messages) {
  for (const SeriesPoint& point : points) ToProto(point, *messages.Add());
}

// Sets a series to stored points. Returns false if they are none.
template <typename Points>
bool TakePoints(const Points& messages, size_t kept, uint32_t level, Series& series) {
  if (kept > series.points().size()) return false;
  std::vector<SeriesPoint> points;
  points.reserve(messages.size());
  const SeriesPoint* before = kept > 0 ? &series.points()[kept - 1] : nullptr;
  for (const v1::SeriesPoint& message : messages) {
    points.push_back(FromProto(message));
    const SeriesPoint& point = points.back();
    if (!IsSound(point) || (before != nullptr && point.first_step <= before->last_step)) {
      return false;
    }
    before = &point;
  }
  series.Replace(kept, level, points);
  return true;
}

v1::HistoryMark MarkOf(const JobHistory::Mark& mark) {
  v1::HistoryMark message;
  message.set_clock(mark.clock);
  message.set_reached(mark.reached);
  message.set_unix_ms(mark.unix_ms);
  return message;
}

}  // namespace

StoredHistory::StoredHistory(std::string job_id, uint32_t slots)
    : job_id_(std::move(job_id)), history_(slots) {}

void StoredHistory::Remove(const std::string& job_id, JobStoreBatch& batch) {
  batch.DeletePrefix(StoreTable::kSeries, StoreKeyPrefix(job_id));
  batch.DeletePrefix(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id));
  batch.Delete(StoreTable::kHistories, job_id);
}

void StoredHistory::AddTo(JobStoreBatch& batch, const Part& part) {
  part_ = part;
  next_ = state_;
  // An ended job's series are stored whole.
  if (part.changes && !part.end_unix_ms.has_value()) AddChanges(next_, batch);
  if (part.cut.has_value()) AddCut(*part.cut, next_, batch);
  if (part.end_unix_ms.has_value()) AddEnd(*part.end_unix_ms, batch);
}

void StoredHistory::Written() {
  state_ = std::move(next_);
  if (part_.changes) history_.ForgetChanges();
  if (part_.cut.has_value()) history_.CutAfter(*part_.cut);
  part_ = {};
  next_ = {};
}

void StoredHistory::AddChanges(State& state, JobStoreBatch& batch) const {
  v1::HistoryChangeRecord record;
  record.set_format_version(kFormatVersion);
  const uint64_t number = state.first_change + state.changes.size();
  for (size_t i = 0; i < history_.series().size(); ++i) {
    const auto& [name, series] = history_.series()[i];
    if (i == state.series.size()) state.series.push_back({.change = number - 1});
    if (!series.changed()) continue;
    v1::HistoryChangeRecord::ChangedSeries& changed = *record.add_series();
    changed.set_series(i);
    if (state.series[i].bytes == 0) changed.set_name(name);
    changed.set_level(series.level());
    changed.set_kept(series.unchanged());
    PutPoints(series.points().subspan(series.unchanged()), *changed.mutable_points());
  }
  if (record.series().empty()) return;
  std::string bytes = record.SerializeAsString();
  const size_t size = bytes.size();
  batch.Put(StoreTable::kHistoryChanges, StoreKey(job_id_, number), std::move(bytes));
  state.changes.push_back(size);
  state.change_bytes += size;
  if (state.change_bytes > std::max(kFewBytes, state.series_bytes)) {
    Rewrite(2 * size, state, batch);
  }
}

void StoredHistory::AddSeries(size_t index, const JobHistory::Named& named, uint64_t change,
                              State& state, JobStoreBatch& batch) const {
  v1::SeriesRecord record;
  record.set_format_version(kFormatVersion);
  record.set_name(named.name);
  record.set_level(named.series.level());
  record.set_change(change);
  PutPoints(named.series.points(), *record.mutable_points());
  std::string bytes = record.SerializeAsString();
  state.series_bytes += bytes.size() - state.series[index].bytes;
  state.series[index] = {.bytes = bytes.size(), .change = change};
  batch.Put(StoreTable::kSeries, StoreKey(job_id_, index), std::move(bytes));
}

void StoredHistory::Rewrite(size_t bytes, State& state, JobStoreBatch& batch) const {
  const uint64_t last = state.first_change + state.changes.size() - 1;
  size_t written = 0;
  for (size_t count = 0; count < state.series.size() && written < bytes; ++count) {
    const size_t index = state.next_series;
    AddSeries(index, history_.series()[index], last, state, batch);
    written += state.series[index].bytes;
    state.next_series = (index + 1) % state.series.size();
  }
  uint64_t included = last;
  for (const SeriesState& series : state.series) included = std::min(included, series.change);
  while (!state.changes.empty() && state.first_change <= included) {
    batch.Delete(StoreTable::kHistoryChanges, StoreKey(job_id_, state.first_change));
    state.change_bytes -= state.changes.front();
    state.changes.pop_front();
    ++state.first_change;
  }
}

void StoredHistory::AddCut(const JobHistory::Mark& mark, State& state, JobStoreBatch& batch) const {
  v1::HistoryChangeRecord record;
  record.set_format_version(kFormatVersion);
  *record.mutable_mark() = MarkOf(mark);
  const uint64_t number = state.first_change + state.changes.size();
  std::string bytes = record.SerializeAsString();
  state.changes.push_back(bytes.size());
  state.change_bytes += bytes.size();
  batch.Put(StoreTable::kHistoryChanges, StoreKey(job_id_, number), std::move(bytes));

  v1::HistoryRecord marks;
  marks.set_format_version(kFormatVersion);
  // The oldest mark goes when there are too many, as it will in memory.
  const bool full = history_.marks().size() == HistoryLimits::kMostMarks;
  for (size_t i = full ? 1 : 0; i < history_.marks().size(); ++i) {
    *marks.add_marks() = MarkOf(history_.marks()[i]);
  }
  *marks.add_marks() = MarkOf(mark);
  batch.Put(StoreTable::kHistories, job_id_, marks.SerializeAsString());
}

void StoredHistory::AddEnd(int64_t unix_ms, JobStoreBatch& batch) const {
  JobHistory ended = history_;
  ended.End(unix_ms);
  State state;
  for (size_t i = 0; i < ended.series().size(); ++i) {
    state.series.emplace_back();
    AddSeries(i, ended.series()[i], 0, state, batch);
  }
  if (state_.changes.empty()) return;
  batch.DeletePrefix(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id_));
}

absl::StatusOr<std::unique_ptr<StoredHistory>> StoredHistory::Read(const JobStore& store,
                                                                   const std::string& job_id,
                                                                   uint32_t slots) {
  auto stored = std::make_unique<StoredHistory>(job_id, slots);
  MUSTER_RETURN_IF_ERROR(stored->ReadFrom(store));
  return stored;
}

absl::Status StoredHistory::ReadFrom(const JobStore& store) {
  MUSTER_RETURN_IF_ERROR(store.Scan(
      StoreTable::kHistories, job_id_, [&](absl::string_view key, absl::string_view value) {
        if (key != job_id_) return absl::OkStatus();
        v1::HistoryRecord record;
        MUSTER_RETURN_IF_ERROR(Parse(job_id_, value, record));
        std::deque<JobHistory::Mark> marks;
        for (const v1::HistoryMark& mark : record.marks()) {
          marks.push_back({mark.clock(), mark.reached(), mark.unix_ms()});
        }
        history_.Restore(std::move(marks));
        return absl::OkStatus();
      }));
  std::map<uint64_t, v1::SeriesRecord> records;
  MUSTER_RETURN_IF_ERROR(store.Scan(StoreTable::kSeries, StoreKeyPrefix(job_id_),
                                    [&](absl::string_view key, absl::string_view value) {
                                      v1::SeriesRecord& record = records[StoreKeyNumber(key)];
                                      MUSTER_RETURN_IF_ERROR(Parse(job_id_, value, record));
                                      state_.series_bytes += value.size();
                                      return absl::OkStatus();
                                    }));
  std::vector<std::pair<uint64_t, v1::HistoryChangeRecord>> changes;
  MUSTER_RETURN_IF_ERROR(store.Scan(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id_),
                                    [&](absl::string_view key, absl::string_view value) {
                                      auto& [number, record] = changes.emplace_back();
                                      number = StoreKeyNumber(key);
                                      MUSTER_RETURN_IF_ERROR(Parse(job_id_, value, record));
                                      state_.changes.push_back(value.size());
                                      state_.change_bytes += value.size();
                                      return absl::OkStatus();
                                    }));

  const absl::Status damaged =
      absl::DataLossError(absl::StrCat("the stored history of job ", job_id_, " is damaged"));
  // Series by number. A series without a record begins in some change.
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, uint64_t> begins;
  for (const auto& [index, record] : records) {
    names[index] = record.name();
    begins[index] = record.change();
  }
  for (const auto& [number, record] : changes) {
    for (const auto& changed : record.series()) {
      if (!names.try_emplace(changed.series(), changed.name()).second) continue;
      begins[changed.series()] = number - 1;
    }
  }
  for (const auto& [index, name] : names) {
    if (index != state_.series.size()) return damaged;
    Series& series = history_.RestoreSeries(name);
    if (history_.series().size() != index + 1) return damaged;
    SeriesState& state = state_.series.emplace_back();
    state.change = begins[index];
    const auto it = records.find(index);
    if (it == records.end()) continue;
    if (!TakePoints(it->second.points(), 0, it->second.level(), series)) return damaged;
    state.bytes = it->second.ByteSizeLong();
  }
  for (const auto& [number, record] : changes) {
    if (record.has_mark()) {
      for (size_t i = 0; i < state_.series.size(); ++i) {
        if (number <= state_.series[i].change) continue;
        history_.RestoreSeries(history_.series()[i].name).CutAfter(record.mark().clock());
      }
    }
    for (const auto& changed : record.series()) {
      if (number <= state_.series[changed.series()].change) continue;
      Series& series = history_.RestoreSeries(names[changed.series()]);
      if (!TakePoints(changed.points(), changed.kept(), changed.level(), series)) return damaged;
    }
  }
  if (!changes.empty()) {
    state_.first_change = changes.front().first;
  } else {
    for (const SeriesState& series : state_.series) {
      state_.first_change = std::max(state_.first_change, series.change + 1);
    }
  }
  history_.ForgetChanges();
  return absl::OkStatus();
}

}  // namespace muster
