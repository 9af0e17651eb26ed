#include "client/terminal/collective_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/terminal/format.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr size_t kLineColumns = 80;
constexpr size_t kGap = 2;
// A label that is cut keeps so much.
constexpr size_t kLeastLabelColumns = 8;

std::string CallName(const v1::CollectiveRecord& call) {
  return absl::StrCat(PrintableLine(call.group()), " ", call.sequence());
}

std::string WhatItDoes(const v1::CollectiveRecord& call, std::string (*format_count)(uint64_t)) {
  std::string text = call.operation();
  if (call.count() > 0) {
    absl::StrAppend(&text, " ", call.dtype(), " x ", format_count(call.count()));
  }
  if (!call.reduction().empty()) absl::StrAppend(&text, ", ", call.reduction());
  return PrintableLine(text);
}

std::string Exact(uint64_t count) { return FormatCount(count); }
std::string Rounded(uint64_t count) { return FormatNumber(static_cast<double>(count)); }

std::string StartedAt(const v1::CollectiveRecord& call) {
  return absl::FormatTime("%H:%M:%E3S", absl::FromUnixMicros(call.started_unix_us()),
                          absl::UTCTimeZone());
}

std::string Took(const v1::CollectiveRecord& call) {
  return call.duration_us() < 0 ? "under way"
                                : FormatTime(static_cast<double>(call.duration_us()) / 1e6);
}

// Returns the widest of the calls' texts.
template <typename Text>
size_t WidthOf(const v1::SlotCollectives& slot, const Text& text) {
  size_t width = 0;
  for (const v1::CollectiveRecord& call : slot.calls()) width = std::max(width, text(call).size());
  return width;
}

}  // namespace

std::string CollectiveTable(const v1::SlotCollectives& slot) {
  const std::vector<std::string> head = {"CALL", "WHAT", "LABEL", "STARTED", "TOOK"};
  size_t others = (head.size() - 1) * kGap;
  others += std::max(WidthOf(slot, CallName), head[0].size());
  others += std::max(WidthOf(slot, StartedAt), head[3].size());
  others += std::max(WidthOf(slot, Took), head[4].size());
  const size_t left = kLineColumns - std::min(kLineColumns, others);
  size_t label = WidthOf(slot, [](const auto& call) { return PrintableLine(call.label()); });
  label = std::max(label, head[2].size());
  const size_t least = std::min(label, kLeastLabelColumns);
  size_t what = WidthOf(slot, [](const auto& call) { return WhatItDoes(call, Exact); });
  const auto format_count = what + least > left ? Rounded : Exact;
  what = WidthOf(slot, [&](const auto& call) { return WhatItDoes(call, format_count); });
  what = std::min(what, left - std::min(left, least));
  label = std::min(label, left - what);

  std::vector<std::vector<std::string>> rows = {head};
  std::string failures;
  for (const v1::CollectiveRecord& call : slot.calls()) {
    rows.push_back({CallName(call), CutText(WhatItDoes(call, format_count), what),
                    CutText(PrintableLine(call.label()), label), StartedAt(call), Took(call)});
    if (call.error().empty()) continue;
    absl::StrAppend(&failures, "call ", CallName(call), " failed: ", PrintableLine(call.error()),
                    "\n");
  }
  return absl::StrCat(FormatTable(rows), failures);
}

}  // namespace muster
