#include "client/tensorboard/history_export.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/history/series.h"
#include "common/history/series_proto.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

double Seconds(int64_t unix_ms) { return static_cast<double>(unix_ms) / 1000; }

}  // namespace

std::string RunFolderName(absl::string_view job_name, absl::string_view job_id) {
  const std::string name = absl::StrCat(job_name, job_name.empty() ? "" : "-", job_id);
  std::string folder;
  for (const unsigned char c : name) {
    const bool plain = absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    folder += plain ? static_cast<char>(c) : '_';
  }
  // A name that begins with a dot would be hidden or mean another folder.
  if (folder.empty() || folder[0] == '.') folder.insert(0, "_");
  return folder;
}

absl::StatusOr<std::unique_ptr<HistoryExport>> HistoryExport::Create(const std::string& folder,
                                                                     int64_t started_unix_ms) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FileError("create", folder, error.value());
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find("tfevents") == std::string::npos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " has event files already, such as ", it->path().filename().string(),
                     "; name another folder with --out, or remove that one"));
  }
  if (error) return FileError("list", folder, error.value());
  std::unique_ptr<HistoryExport> created(new HistoryExport(folder, started_unix_ms));
  MUSTER_RETURN_IF_ERROR(created->BeginFile(started_unix_ms));
  MUSTER_RETURN_IF_ERROR(created->file_->Flush());
  return created;
}

HistoryExport::HistoryExport(std::string folder, int64_t started_unix_ms)
    : folder_(std::move(folder)), started_unix_ms_(started_unix_ms) {}

absl::Status HistoryExport::BeginFile(int64_t unix_ms) {
  if (file_ != nullptr) MUSTER_RETURN_IF_ERROR(file_->Flush());
  // TensorBoard reads a folder's files in the order of their names.
  MUSTER_ASSIGN_OR_RETURN(
      file_,
      EventFile::Create(absl::StrFormat("%s/events.out.tfevents.%010d.muster", folder_, files_),
                        Seconds(unix_ms)));
  ++files_;
  return absl::OkStatus();
}

absl::Status HistoryExport::TakeMarks(const v1::MetricsChunk& chunk) {
  std::vector<Mark> marks;
  for (const v1::HistoryMark& mark : chunk.marks()) {
    marks.push_back({mark.clock(), mark.reached(), mark.unix_ms()});
  }
  const bool first = !last_mark_.has_value();
  if (first) last_mark_.emplace();
  if (marks.empty() || marks.back() == *last_mark_) return absl::OkStatus();
  // Marks after the last known one are new.
  const auto known = std::find(marks.rbegin(), marks.rend(), *last_mark_);
  uint64_t clock = marks.back().clock;
  for (auto mark = marks.rbegin(); mark != known; ++mark) clock = std::min(clock, mark->clock);
  last_mark_ = marks.back();
  if (first) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(BeginFile(last_mark_->unix_ms));
  file_->AddRestart(clock + 1, Seconds(last_mark_->unix_ms));
  for (auto& [name, tag] : tags_) {
    if (tag.step.has_value()) tag.step = std::min(*tag.step, clock);
  }
  return absl::OkStatus();
}

void HistoryExport::AddSeries(const v1::Series& series) {
  Tag& tag = tags_[series.name()];
  for (const v1::SeriesPoint& message : series.points()) {
    const SeriesPoint point = FromProto(message);
    if (!IsSound(point) || (tag.step.has_value() && point.last_step <= *tag.step)) continue;
    if (point.unix_ms > 0) tag.unix_ms = point.unix_ms;
    const int64_t unix_ms = tag.unix_ms > 0 ? tag.unix_ms : started_unix_ms_;
    file_->AddScalar(series.name(), point.last_step, Seconds(unix_ms), point.mean);
    tag.step = point.last_step;
    ++values_;
  }
}

absl::Status HistoryExport::Add(const v1::MetricsChunk& chunk) {
  MUSTER_RETURN_IF_ERROR(TakeMarks(chunk));
  for (const v1::Series& series : chunk.series()) AddSeries(series);
  return file_->Flush();
}

}  // namespace muster
