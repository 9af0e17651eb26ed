#include "server/coordinator/requests/metrics_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/history/series.h"
#include "common/history/series_proto.h"
#include "server/coordinator/requests/fits_pattern.h"

namespace muster {
namespace {

constexpr absl::Duration kFollowInterval = absl::Seconds(1);
// Series are added to a chunk until it has this much; the last may exceed it.
constexpr size_t kChunkBytes = 1 << 20;
// Most series that one call compares with patterns, so that other calls get their turn.
constexpr size_t kMaxComparedWithPatterns = 1000;

bool IsWanted(const v1::ReadMetricsRequest& request, absl::string_view name) {
  const auto& patterns = request.series();
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) { return FitsPattern(pattern, name); });
}

// Adds to the chunk what the reader lacks of a series.
void AddSeries(const v1::ReadMetricsRequest& request, const JobHistory::Named& named,
               MetricsRequests::Position::Sent& sent, v1::MetricsChunk& chunk) {
  const Series& series = named.series;
  const bool same_revision = sent.revision == series.revision();
  if (same_revision && sent.last_step == series.last_step()) return;
  // Joined points change with every value; without joining, what was sent stays.
  const bool only_new = same_revision && request.max_points() == 0;
  const uint64_t from = only_new && sent.last_step.has_value()
                            ? std::max<uint64_t>(request.from_step(), *sent.last_step + 1)
                            : request.from_step();
  absl::Span<const SeriesPoint> points = series.points();
  const auto begin = std::partition_point(
      points.begin(), points.end(), [from](const auto& point) { return point.last_step < from; });
  points = points.subspan(begin - points.begin());
  Series fewer(HistoryLimits::kMostPoints);
  if (request.max_points() > 0 && points.size() > request.max_points()) {
    fewer.Replace(0, series.level(), points);
    fewer.Thin(request.max_points());
    points = fewer.points();
  }
  const bool first = !sent.revision.has_value();
  sent.revision = series.revision();
  sent.last_step = series.last_step();
  // Nothing is to be said of a series that the reader neither has nor is to have.
  if (points.empty() && first) return;
  v1::Series& added = *chunk.add_series();
  added.set_name(named.name);
  if (only_new && !points.empty()) added.set_replaces_from(points.front().first_step);
  for (const SeriesPoint& point : points) ToProto(point, *added.add_points());
}

void AddMarks(const JobHistory& history, MetricsRequests::Position& position,
              v1::MetricsChunk& chunk) {
  const auto& marks = history.marks();
  if (marks.empty()) return;
  if (position.marks == marks.size() && position.last_mark == marks.back()) return;
  position.marks = marks.size();
  position.last_mark = marks.back();
  for (const JobHistory::Mark& mark : marks) {
    v1::HistoryMark& added = *chunk.add_marks();
    added.set_clock(mark.clock);
    added.set_reached(mark.reached);
    added.set_unix_ms(mark.unix_ms);
  }
}

// Returns whether steps that the reader has were removed or joined since. REQUIRES: the reader has
// all marks.
bool IsOutdated(const JobHistory& history, const MetricsRequests::Position& position) {
  for (size_t i = 0; i < position.series.size(); ++i) {
    const std::optional<uint64_t>& sent = position.series[i].revision;
    if (sent.has_value() && *sent != history.series()[i].series.revision()) return true;
  }
  return false;
}

}  // namespace

void MetricsRequests::Next(const v1::ReadMetricsRequest& request, Position position,
                           Call<Update> call) {
  if (request.max_points() == 1) {
    return call.done(
        absl::InvalidArgumentError("max_points is 1; it must be at least 2, or 0 for all points"));
  }
  Reader reader{.request = request, .position = std::move(position), .call = std::move(call)};
  if (!Answer(reader)) readers_.push_back(std::move(reader));
}

absl::StatusOr<std::shared_ptr<const StoredHistory>> MetricsRequests::ReadEnded(const Job& job) {
  if (const auto it = ended_.find(job.id()); it != ended_.end()) {
    if (std::shared_ptr<const StoredHistory> shared = it->second.lock()) return shared;
  }
  absl::erase_if(ended_, [](const auto& entry) { return entry.second.expired(); });
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const StoredHistory> read, jobs_.ReadHistory(job));
  ended_[job.id()] = read;
  return read;
}

absl::StatusOr<const JobHistory*> MetricsRequests::HistoryFor(Reader& reader) {
  Position& position = reader.position;
  const Job* job = jobs_.Find(reader.request.job_id());
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no job \"", reader.request.job_id(),
                                            "\"; `muster list` shows all jobs"));
  }
  if (job->history != nullptr) return &job->history->history();
  if (position.ended == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(position.ended, ReadEnded(*job));
    // An ended job has fewer points, so all series are sent anew.
    for (Position::Sent& sent : position.series) {
      if (sent.revision.has_value()) sent.revision = UINT64_MAX;
    }
    position.next = 0;
    position.not_before = -absl::InfiniteDuration();
  }
  return &position.ended->history();
}

absl::StatusOr<std::optional<MetricsRequests::Update>> MetricsRequests::UpdateFor(Reader& reader) {
  Position& position = reader.position;
  MUSTER_ASSIGN_OR_RETURN(const JobHistory* history, HistoryFor(reader));
  if (clock_.Monotonic() < position.not_before) return std::nullopt;
  Update update;
  AddMarks(*history, position, update.chunk);
  const auto& all = history->series();
  position.series.resize(all.size());
  size_t bytes = 0, compared = 0;
  for (; position.next < all.size() && bytes < kChunkBytes; ++position.next) {
    Position::Sent& sent = position.series[position.next];
    const JobHistory::Named& named = all[position.next];
    if (!sent.wanted.has_value()) {
      if (!reader.request.series().empty() && ++compared > kMaxComparedWithPatterns) break;
      sent.wanted = IsWanted(reader.request, named.name);
    }
    if (!*sent.wanted) continue;
    const int before = update.chunk.series_size();
    AddSeries(reader.request, named, sent, update.chunk);
    if (update.chunk.series_size() > before) {
      bytes += update.chunk.series(before).ByteSizeLong();
    }
  }
  const bool complete = position.next == all.size();
  if (complete) position.next = 0;
  if (complete && reader.request.follow()) {
    position.not_before = clock_.Monotonic() + kFollowInterval;
  }
  // A job may have gone back while a long history was sent.
  update.last = complete && (position.ended != nullptr ||
                             (!reader.request.follow() && !IsOutdated(*history, position)));
  if (update.chunk.series().empty() && update.chunk.marks().empty() && !update.last) {
    return std::nullopt;
  }
  update.position = std::move(position);
  return update;
}

bool MetricsRequests::Answer(Reader& reader) {
  if (reader.call.gone()) {
    reader.call.done(absl::CancelledError("the caller is gone"));
    return true;
  }
  absl::StatusOr<std::optional<Update>> update = UpdateFor(reader);
  if (!update.ok()) {
    reader.call.done(update.status());
    return true;
  }
  if (!update->has_value()) return false;
  reader.call.done(std::move(**update));
  return true;
}

void MetricsRequests::AnswerChanged() {
  std::erase_if(readers_, [this](Reader& reader) { return Answer(reader); });
}

void MetricsRequests::AnswerAll(const absl::Status& status) {
  for (Reader& reader : std::exchange(readers_, {})) reader.call.done(status);
}

}  // namespace muster
