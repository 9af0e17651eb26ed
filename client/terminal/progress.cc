#include "client/terminal/progress.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/terminal/format.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {

std::string StateName(const v1::JobStatus& status) { return v1::JobState_Name(status.state()); }

bool HasEnded(const v1::JobStatus& status) {
  return status.state() == v1::SUCCEEDED || status.state() == v1::FAILED ||
         status.state() == v1::CANCELLED;
}

std::string MetricValue(const v1::EvaluationResult& result) {
  return result.no_value().empty() ? FormatLoss(result.value()) : "none";
}

std::string MetricText(const v1::EvaluationResult& result) {
  return absl::StrCat(PrintableLine(result.metric()), " ", MetricValue(result));
}

std::string BestLine(const v1::JobStatus& status) {
  if (!status.has_best() || status.best().clock() == status.checkpoint_clock()) return "";
  const std::string job = PrintableLine(status.job_id());
  return absl::StrCat("best at step ", status.best().clock(), ": ", MetricText(status.best()),
                      "; `muster export ", job, "@best --out FILE` writes its weights");
}

std::string LossText(const v1::JobProgress& progress) {
  return progress.has_loss() ? FormatLoss(progress.loss()) : "-";
}

std::string MessageBeforeTraceback(const v1::JobStatus& status) {
  const std::string& message = status.message();
  return status.traceback().empty() ? message : message.substr(0, message.find('\n'));
}

std::string TracebackText(const v1::JobStatus& status) {
  const absl::string_view lines = absl::StripTrailingAsciiWhitespace(status.traceback());
  std::string text;
  if (lines.empty()) return text;
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    absl::StrAppend(&text, "  ", PrintableLine(line), "\n");
  }
  return text;
}

std::string ProgressLine(const v1::JobStatus& status, int bar_width) {
  std::string line = absl::StrFormat("%-10s", StateName(status));
  if (status.state() == v1::PENDING) return absl::StrCat(line, " waiting to be placed");
  const v1::JobProgress& progress = status.progress();
  const uint64_t total = progress.total_steps();
  if (bar_width > 0 && total > 0) {
    const int filled = static_cast<int>(std::min<uint64_t>(progress.step(), total) *
                                        static_cast<uint64_t>(bar_width) / total);
    absl::StrAppend(&line, " [", std::string(filled, '#'), std::string(bar_width - filled, '.'),
                    "]");
  }
  absl::StrAppend(&line, " step ", progress.step());
  if (total > 0) absl::StrAppend(&line, "/", total);
  if (status.state() == v1::SUCCEEDED && progress.step() > 0) {
    absl::StrAppend(&line, "  loss ", LossText(progress), " (last step)");
  } else if (progress.examples_per_second() > 0) {
    absl::StrAppend(&line, "  loss ", LossText(progress));
  }
  if (status.evaluations_size() > 0) {
    const v1::EvaluationResult& last = *status.evaluations().rbegin();
    absl::StrAppend(&line, "  ", MetricText(last));
  }
  if (progress.examples_per_second() > 0) {
    absl::StrAppend(&line, "  ", FormatNumber(progress.examples_per_second()), " examples/s");
  }
  if (status.state() == v1::RUNNING && progress.seconds_left() > 0) {
    absl::StrAppend(&line, "  ", FormatSeconds(progress.seconds_left()), " left");
  }
  return line;
}

}  // namespace muster
