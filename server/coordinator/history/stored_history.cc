#include "server/coordinator/history/stored_history.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/series_proto.h"
#include "proto/job_record.pb.h"
#include "proto/metrics.pb.h"
#include "server/coordinator/history/history_records.h"

namespace muster {
namespace {

// Changes may always take this much, so that short histories are not stored again and again.
constexpr size_t kFewBytes = 64 << 10;

template <typename Points>
void PutPoints(absl::Span<const SeriesPoint> points, Points& messages) {
  for (const SeriesPoint& point : points) ToProto(point, *messages.Add());
}

v1::HistoryMark MarkOf(const JobHistory::Mark& mark) {
  v1::HistoryMark message;
  message.set_clock(mark.clock);
  message.set_reached(mark.reached);
  message.set_unix_ms(mark.unix_ms);
  return message;
}

}  // namespace

StoredHistory::StoredHistory(std::string job_id, const HistoryOptions& options)
    : job_id_(std::move(job_id)), history_(options) {}

void StoredHistory::Remove(const std::string& job_id, JobStoreBatch& batch) {
  batch.DeletePrefix(StoreTable::kSeries, StoreKeyPrefix(job_id));
  batch.DeletePrefix(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id));
  batch.Delete(StoreTable::kHistories, job_id);
}

void StoredHistory::AddTo(JobStoreBatch& batch, const Part& part) {
  part_ = part;
  next_ = state_;
  // An ended job's series are stored whole.
  if (part.changes && !part.end.has_value()) AddChanges(next_, batch);
  if (part.cut.has_value()) AddCut(*part.cut, next_, batch);
  if (part.end.has_value()) AddEnd(*part.end, batch);
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
  record.set_format_version(kHistoryFormatVersion);
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
  record.set_format_version(kHistoryFormatVersion);
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
  record.set_format_version(kHistoryFormatVersion);
  *record.mutable_mark() = MarkOf(mark);
  const uint64_t number = state.first_change + state.changes.size();
  std::string bytes = record.SerializeAsString();
  state.changes.push_back(bytes.size());
  state.change_bytes += bytes.size();
  batch.Put(StoreTable::kHistoryChanges, StoreKey(job_id_, number), std::move(bytes));

  std::deque<JobHistory::Mark> marks = history_.marks();
  marks.push_back(mark);
  // The oldest mark goes when there are too many, as it will in memory.
  if (marks.size() > HistoryLimits::kMostMarks) marks.pop_front();
  AddMarks(marks, batch);
}

void StoredHistory::AddMarks(const std::deque<JobHistory::Mark>& marks,
                             JobStoreBatch& batch) const {
  v1::HistoryRecord record;
  record.set_format_version(kHistoryFormatVersion);
  for (const JobHistory::Mark& mark : marks) *record.add_marks() = MarkOf(mark);
  batch.Put(StoreTable::kHistories, job_id_, record.SerializeAsString());
}

StoredHistory::State StoredHistory::AddWhole(const JobHistory& history,
                                             JobStoreBatch& batch) const {
  State state;
  for (size_t i = 0; i < history.series().size(); ++i) {
    state.series.emplace_back();
    AddSeries(i, history.series()[i], 0, state, batch);
  }
  return state;
}

void StoredHistory::AddEnd(const Part::End& end, JobStoreBatch& batch) const {
  JobHistory ended = history_;
  ended.End(end.now, end.unix_ms);
  AddWhole(ended, batch);
  if (state_.changes.empty()) return;
  batch.DeletePrefix(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id_));
}

absl::StatusOr<std::unique_ptr<StoredHistory>> StoredHistory::Read(const JobStore& store,
                                                                   const std::string& job_id,
                                                                   const HistoryOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const HistoryRecords records, ReadHistoryRecords(store, job_id));
  auto stored = std::make_unique<StoredHistory>(job_id, options);
  MUSTER_RETURN_IF_ERROR(stored->Restore(records));
  return stored;
}

absl::StatusOr<std::unique_ptr<StoredHistory>> StoredHistory::Salvage(const JobStore& store,
                                                                      const std::string& job_id,
                                                                      const HistoryOptions& options,
                                                                      JobStoreBatch& batch) {
  MUSTER_ASSIGN_OR_RETURN(const HistoryRecords records, ReadHistoryRecords(store, job_id));
  auto stored = std::make_unique<StoredHistory>(job_id, options);
  SalvageHistory(records, stored->history_);
  Remove(job_id, batch);
  stored->state_ = stored->AddWhole(stored->history_, batch);
  if (!stored->history_.marks().empty()) stored->AddMarks(stored->history_.marks(), batch);
  stored->history_.ForgetChanges();
  return stored;
}

absl::Status StoredHistory::Restore(const HistoryRecords& records) {
  const auto damaged = [this](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat("the stored history of job ", job_id_, " is damaged: ", what));
  };
  if (records.marks.has_value()) {
    if (!records.marks->record.has_value()) return damaged("its marks are unreadable");
    history_.Restore(MarksOf(*records.marks->record));
  }
  // Series by number. A series without a record begins in some change.
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, uint64_t> begins;
  for (const auto& [index, stored] : records.series) {
    if (!stored.record.has_value())
      return damaged(absl::StrCat("series ", index, " is unreadable"));
    names[index] = stored.record->name();
    begins[index] = stored.record->change();
    state_.series_bytes += stored.bytes;
  }
  for (const auto& [number, stored] : records.changes) {
    const bool follows =
        state_.changes.empty() || number == state_.first_change + state_.changes.size();
    if (!stored.record.has_value() || !follows) {
      return damaged(
          absl::StrCat("change ", number, follows ? " is unreadable" : " is no next one"));
    }
    if (state_.changes.empty()) state_.first_change = number;
    state_.changes.push_back(stored.bytes);
    state_.change_bytes += stored.bytes;
    for (const auto& changed : stored.record->series()) {
      if (!names.try_emplace(changed.series(), changed.name()).second) continue;
      begins[changed.series()] = number - 1;
    }
  }
  for (const auto& [index, name] : names) {
    Series& series = history_.RestoreSeries(name);
    if (index != state_.series.size() || history_.series().size() != index + 1) {
      return damaged(absl::StrCat("series ", index, " is missing, or there twice"));
    }
    SeriesState& state = state_.series.emplace_back();
    state.change = begins[index];
    if (!records.changes.empty() && state.change + 1 < state_.first_change) {
      return damaged(absl::StrCat("changes of series ", index, " are missing"));
    }
    const auto it = records.series.find(index);
    if (it == records.series.end()) continue;
    const v1::SeriesRecord& record = *it->second.record;
    if (!TakePoints(record.points(), 0, record.level(), series)) {
      return damaged(absl::StrCat("series ", index, " has points out of order"));
    }
    state.bytes = it->second.bytes;
  }
  for (const auto& [number, stored] : records.changes) {
    const v1::HistoryChangeRecord& record = *stored.record;
    for (size_t i = 0; record.has_mark() && i < state_.series.size(); ++i) {
      if (number <= state_.series[i].change) continue;
      history_.RestoreSeries(history_.series()[i].name).CutAfter(record.mark().clock());
    }
    for (const auto& changed : record.series()) {
      if (number <= state_.series[changed.series()].change) continue;
      Series& series = history_.RestoreSeries(names[changed.series()]);
      if (!TakePoints(changed.points(), changed.kept(), changed.level(), series)) {
        return damaged(absl::StrCat("change ", number, " does not fit series ", changed.series()));
      }
    }
  }
  if (records.changes.empty()) {
    for (const SeriesState& series : state_.series) {
      state_.first_change = std::max(state_.first_change, series.change + 1);
    }
  }
  history_.ForgetChanges();
  return absl::OkStatus();
}

}  // namespace muster
