#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/history/series.h"
#include "common/history/series_proto.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

struct HistoryArguments {
  std::vector<std::string> series;
  uint64_t from_step = 0;
  uint32_t points = 0;
  bool csv = false;
};

std::string Time(int64_t unix_ms, const absl::TimeZone& zone) {
  // The coordinator does not know when some values were.
  if (unix_ms == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S", absl::FromUnixMillis(unix_ms), zone);
}

// Returns the shortest text that reads as the same number.
std::string Exact(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && read == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::string CsvField(const std::string& text) {
  const std::string shown = PrintableLine(text);
  if (shown.find_first_of(",\"") == std::string::npos) return shown;
  return absl::StrCat("\"", absl::StrReplaceAll(shown, {{"\"", "\"\""}}), "\"");
}

void PrintCsv(const v1::MetricsChunk& history) {
  Print("series,first_step,last_step,values,min,max,mean,last,time_utc\n");
  for (const v1::Series& series : history.series()) {
    const std::string name = CsvField(series.name());
    for (const v1::SeriesPoint& message : series.points()) {
      const SeriesPoint point = FromProto(message);
      Print("%s,%d,%d,%d,%s,%s,%s,%s,%s\n", name, point.first_step, point.last_step, point.values,
            Exact(point.min), Exact(point.max), Exact(point.mean), Exact(point.last),
            Time(point.unix_ms, absl::UTCTimeZone()));
    }
  }
  for (const v1::HistoryMark& mark : history.marks()) {
    Print("rollback,%d,%d,,,,,,%s\n", mark.clock(), mark.reached(),
          Time(mark.unix_ms(), absl::UTCTimeZone()));
  }
}

using Format = std::string (*)(double value);

// Returns how values of a series are shown, with their unit (proto/metrics.proto); that of a speed
// is in the series' name.
Format FormatOf(absl::string_view name) {
  if (name == "speed/mfu") return FormatPercent;
  if (!absl::StartsWith(name, "slot/")) return FormatNumber;
  return absl::EndsWith(name, "/memory_bytes") ? FormatBytes : FormatTime;
}

// Lines have at most 80 columns for usual names and sizes.
void PrintTable(const v1::MetricsChunk& history, absl::string_view if_empty) {
  std::vector<std::vector<std::string>> rows = {{"SERIES", "STEPS", "LAST", "MEAN", "MIN", "MAX"}};
  for (const v1::Series& series : history.series()) {
    SeriesPoint all{.values = 0};
    for (const v1::SeriesPoint& message : series.points()) {
      const SeriesPoint point = FromProto(message);
      if (IsSound(point)) all = all.values == 0 ? point : Joined(all, point);
    }
    if (all.values == 0) continue;
    const Format number = FormatOf(series.name());
    rows.push_back({series.name(), absl::StrCat(all.first_step, "-", all.last_step),
                    number(all.last), number(all.mean), number(all.min), number(all.max)});
  }
  Print("%s", rows.size() == 1 ? absl::StrCat(if_empty, "\n") : FormatTable(rows));
  for (const v1::HistoryMark& mark : history.marks()) {
    Print("%s  went back from step %d to step %d\n", Time(mark.unix_ms(), absl::LocalTimeZone()),
          mark.reached(), mark.clock());
  }
}

absl::Status ShowHistory(Session& session, JobClient& jobs, const std::string& job_id,
                         const HistoryArguments& arguments) {
  v1::ReadMetricsRequest request;
  request.set_job_id(job_id);
  request.mutable_series()->Add(arguments.series.begin(), arguments.series.end());
  request.set_from_step(arguments.from_step);
  request.set_max_points(arguments.points);
  v1::MetricsChunk history;
  MUSTER_RETURN_IF_ERROR(jobs.History(request, history));
  std::sort(history.mutable_series()->begin(), history.mutable_series()->end(),
            [](const v1::Series& a, const v1::Series& b) { return a.name() < b.name(); });
  if (session.output == Session::Output::kJson) {
    // Programs find all numbers in every point.
    for (v1::Series& series : *history.mutable_series()) {
      for (v1::SeriesPoint& message : *series.mutable_points()) {
        const SeriesPoint point = FromProto(message);
        message.set_min(point.min);
        message.set_max(point.max);
        message.set_mean(point.mean);
      }
    }
    session.PrintJson(history);
  } else if (arguments.csv) {
    PrintCsv(history);
  } else {
    const bool some = !arguments.series.empty() || arguments.from_step > 0;
    PrintTable(history, some ? "no values of these series at these steps" : "nothing reported yet");
  }
  return absl::OkStatus();
}

}  // namespace

void AddHistory(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<HistoryArguments>();
  auto* command =
      AddJobCommand(app, session, "history", "Print a job's loss, speed and more over its steps",
                    [arguments](Session& session, JobClient& jobs, const std::string& job_id) {
                      return ShowHistory(session, jobs, job_id, *arguments);
                    });
  command
      ->add_option("--series", arguments->series,
                   "Only these series; `*` stands for any characters, `?` for one")
      ->delimiter(',')
      ->option_text("NAME,...");
  command->add_option("--from", arguments->from_step, "Begin at this step");
  command
      ->add_option("--points", arguments->points,
                   "At most so many points a series, at least 2; neighbours are joined")
      ->check(CLI::Range(uint32_t{2}, uint32_t{1} << 20));
  command
      ->add_option_function<std::string>(
          "--output",
          [arguments, &session](const std::string& output) {
            session.output = output == "json" ? Session::Output::kJson : Session::Output::kText;
            arguments->csv = output == "csv";
          },
          "text: a summary; json and csv: every point, for programs and for spreadsheets")
      ->transform(OneOf({"text", "json", "csv"}))
      ->take_last()
      ->option_text("text|json|csv");
  command->footer(
      "Example: muster history JOB\n"
      "         muster history JOB --series 'train/*,held_out/*' --output csv\n"
      "The coordinator keeps at most 4,096 points of a series: of a longer job, a point stands for "
      "several steps. Values of a job that has ended are kept in at most 512. "
      "In csv, a line `rollback` has the step that the job went back to, and the one it had come "
      "to.");
}

}  // namespace muster
