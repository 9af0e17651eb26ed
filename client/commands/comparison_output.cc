#include "client/commands/comparison_output.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/format.h"
#include "client/progress_display.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

void PrintJsonRows(const Session& session, const std::vector<std::vector<std::string>>& table) {
  for (size_t road = 1; road < table[0].size(); ++road) {
    std::vector<std::pair<std::string, std::string>> fields = {{"road", table[0][road]}};
    std::string section;
    for (size_t row = 1; row < table.size(); ++row) {
      // Indented rows belong to the one above.
      std::string name = table[row][0];
      if (name.rfind("  ", 0) == 0) {
        name = absl::StrCat(section, ",", name.substr(1));
      } else {
        section = name;
      }
      fields.emplace_back(name, table[row][road]);
    }
    session.PrintResult("", fields);
  }
}

}  // namespace

absl::StatusOr<Comparison> CompareAndPrint(const Session& session, const v1::JobSpec& job,
                                           ComparisonOptions options) {
  const bool text = session.output == Session::Output::kText;
  std::unique_ptr<ProgressDisplay> display;
  if (text) {
    options.starting = [&](const Road& road, int repeat) {
      std::printf("\n%s, run %d of %d\n", road.name.c_str(), repeat + 1, options.repeats);
      std::fflush(stdout);
      display = std::make_unique<ProgressDisplay>();
    };
    options.changed = [&](const v1::JobStatus& status) { display->Show(status); };
    options.ended = [&] { display->Finish(); };
  }
  MUSTER_ASSIGN_OR_RETURN(Comparison comparison, RunComparison(job, options));
  const std::vector<std::vector<std::string>> table = ComparisonTable(comparison);
  if (!text) {
    PrintJsonRows(session, table);
    return comparison;
  }
  std::printf(
      "\n%s: %d workers, %d servers (none for all-reduce), batch %d, %d processors for all\n",
      comparison.job.c_str(), comparison.workers, comparison.servers, comparison.batch_size,
      comparison.processors);
  std::printf("%s", FormatTable(table).c_str());
  for (const std::string& reason : comparison.left_out) {
    std::printf("left out: %s\n", reason.c_str());
  }
  return comparison;
}

}  // namespace muster
