#include "client/terminal/row_counts.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/terminal/format.h"

namespace muster {

RowCounts RowCountsOf(absl::string_view metrics, const std::string& job_id) {
  RowCounts counts;
  const std::string label = absl::StrCat("job_id=\"", job_id, "\"");
  for (absl::string_view line : absl::StrSplit(metrics, '\n')) {
    uint64_t* count = nullptr;
    if (absl::ConsumePrefix(&line, "muster_server_sparse_rows{")) count = &counts.rows;
    if (absl::ConsumePrefix(&line, "muster_server_rows_on_disk{")) count = &counts.on_disk;
    const size_t end = line.rfind('}');
    if (count == nullptr || end == absl::string_view::npos ||
        !absl::StrContains(line.substr(0, end), label)) {
      continue;
    }
    double value = 0;
    if (absl::SimpleAtod(line.substr(end + 1), &value)) *count += static_cast<uint64_t>(value);
  }
  return counts;
}

std::string DescribeRows(const RowCounts& counts) {
  if (counts.rows == 0) return "";
  std::string text = FormatNumber(static_cast<double>(counts.rows));
  if (counts.on_disk > 0) {
    absl::StrAppend(&text, ", ", FormatNumber(static_cast<double>(counts.on_disk)),
                    " of them on disk alone");
  }
  return text;
}

}  // namespace muster
