#include "server/coordinator/history/history_records.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/series_proto.h"
#include "proto/metrics.pb.h"

namespace muster {
namespace {

template <typename Record>
absl::Status Parse(const std::string& job_id, absl::string_view bytes,
                   HistoryRecords::Stored<Record>& stored) {
  stored.bytes = bytes.size();
  Record record;
  if (!record.ParseFromArray(bytes.data(), bytes.size())) return absl::OkStatus();
  if (record.format_version() > kHistoryFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a stored record of the history of job ", job_id, " has format version ",
                     record.format_version(),
                     ", written by a later release of Muster; this one reads formats up to ",
                     kHistoryFormatVersion));
  }
  stored.record = std::move(record);
  return absl::OkStatus();
}

// A series that is being salvaged.
struct Salvaged {
  Series* series = nullptr;
  // The last change that its points include.
  uint64_t change = 0;
  // True if the points are exactly those that the series had at that change.
  bool whole = false;
};

// The lowest clock to which the job is known to have gone back.
class LowestMark {
 public:
  explicit LowestMark(const HistoryRecords& records) {
    if (records.marks.has_value()) {
      if (!records.marks->record.has_value()) {
        clock_ = 0;
        return;
      }
      for (const v1::HistoryMark& mark : records.marks->record->marks()) Add(mark);
    }
    for (const auto& [number, change] : records.changes) {
      if (change.record.has_value() && change.record->has_mark()) Add(change.record->mark());
    }
  }

  void Cut(Series& series) const {
    if (clock_.has_value()) series.CutAfter(*clock_);
  }

 private:
  void Add(const v1::HistoryMark& mark) {
    clock_ = std::min<uint64_t>(clock_.value_or(mark.clock()), mark.clock());
  }

  std::optional<uint64_t> clock_;
};

// Makes the series, in the order of their numbers, with the points of their records.
std::map<uint64_t, Salvaged> BeginSeries(const HistoryRecords& records, JobHistory& history) {
  // The name of each series, and the change before the first one that it needs.
  std::map<uint64_t, std::pair<std::string, uint64_t>> names;
  for (const auto& [index, stored] : records.series) {
    if (stored.record.has_value()) names[index] = {stored.record->name(), stored.record->change()};
  }
  for (const auto& [number, stored] : records.changes) {
    if (!stored.record.has_value()) continue;
    for (const auto& changed : stored.record->series()) {
      if (!changed.name().empty()) {
        names.try_emplace(changed.series(), changed.name(), number - 1);
      }
    }
  }
  std::map<uint64_t, Salvaged> series;
  for (const auto& [index, name] : names) {
    const size_t before = history.series().size();
    history.RestoreSeries(name.first);
    // The name is taken: keep only the first series of a name.
    if (history.series().size() == before) continue;
    series[index] = {.change = name.second};
  }
  // Series no longer move once all are there.
  for (auto& [index, salvaged] : series) {
    salvaged.series = &history.RestoreSeries(names[index].first);
    const auto it = records.series.find(index);
    if (it == records.series.end()) {
      salvaged.whole = true;
    } else if (it->second.record.has_value()) {
      const v1::SeriesRecord& record = *it->second.record;
      salvaged.whole = TakePoints(record.points(), 0, record.level(), *salvaged.series);
    }
  }
  return series;
}

// Notes that changes before `number` may be lost.
void LoseChangesBefore(uint64_t number, std::map<uint64_t, Salvaged>& series) {
  for (auto& [index, salvaged] : series) {
    if (salvaged.change + 1 < number) salvaged.whole = false;
  }
}

void ApplyChange(uint64_t number, const v1::HistoryChangeRecord& record,
                 std::map<uint64_t, Salvaged>& series) {
  for (auto& [index, salvaged] : series) {
    if (number <= salvaged.change) continue;
    if (record.has_mark()) salvaged.series->CutAfter(record.mark().clock());
  }
  for (const auto& changed : record.series()) {
    const auto it = series.find(changed.series());
    if (it == series.end() || number <= it->second.change) continue;
    Salvaged& salvaged = it->second;
    if (!salvaged.whole && changed.kept() > 0) continue;
    salvaged.whole =
        TakePoints(changed.points(), changed.kept(), changed.level(), *salvaged.series);
  }
  for (auto& [index, salvaged] : series) salvaged.change = std::max(salvaged.change, number);
}

}  // namespace

absl::StatusOr<HistoryRecords> ReadHistoryRecords(const JobStore& store,
                                                  const std::string& job_id) {
  HistoryRecords records;
  MUSTER_RETURN_IF_ERROR(store.Scan(StoreTable::kHistories, job_id,
                                    [&](absl::string_view key, absl::string_view value) {
                                      if (key != job_id) return absl::OkStatus();
                                      return Parse(job_id, value, records.marks.emplace());
                                    }));
  MUSTER_RETURN_IF_ERROR(store.Scan(StoreTable::kSeries, StoreKeyPrefix(job_id),
                                    [&](absl::string_view key, absl::string_view value) {
                                      return Parse(job_id, value,
                                                   records.series[StoreKeyNumber(key)]);
                                    }));
  MUSTER_RETURN_IF_ERROR(store.Scan(StoreTable::kHistoryChanges, StoreKeyPrefix(job_id),
                                    [&](absl::string_view key, absl::string_view value) {
                                      return Parse(job_id, value,
                                                   records.changes[StoreKeyNumber(key)]);
                                    }));
  return records;
}

std::deque<JobHistory::Mark> MarksOf(const v1::HistoryRecord& record) {
  std::deque<JobHistory::Mark> marks;
  for (const v1::HistoryMark& mark : record.marks()) {
    marks.push_back({mark.clock(), mark.reached(), mark.unix_ms()});
  }
  return marks;
}

bool TakePoints(const google::protobuf::RepeatedPtrField<v1::SeriesPoint>& messages, size_t kept,
                uint32_t level, Series& series) {
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

void SalvageHistory(const HistoryRecords& records, JobHistory& history) {
  std::map<uint64_t, Salvaged> series = BeginSeries(records, history);
  for (const auto& [number, stored] : records.changes) {
    LoseChangesBefore(number, series);
    if (stored.record.has_value()) {
      ApplyChange(number, *stored.record, series);
    } else {
      LoseChangesBefore(number + 1, series);
    }
  }
  const LowestMark lowest(records);
  for (auto& [index, salvaged] : series) {
    if (!salvaged.whole) lowest.Cut(*salvaged.series);
  }
  if (records.marks.has_value() && records.marks->record.has_value()) {
    history.Restore(MarksOf(*records.marks->record));
  }
}

}  // namespace muster
