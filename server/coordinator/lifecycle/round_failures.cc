#include "server/coordinator/lifecycle/round_failures.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/job/request_limits.h"

namespace muster {
namespace {

constexpr size_t kMostReasons = 4;
constexpr size_t kMostReasonBytes = 500;
// Slots named for one reason.
constexpr size_t kMostSlots = 4;

struct Reason {
  absl::string_view text;
  std::vector<uint32_t> slots;
};

// Returns the reasons, the one of the fewest slots first; of equals, the one of the lowest slot.
std::vector<Reason> Gather(const std::map<uint32_t, std::string>& failures) {
  std::vector<Reason> reasons;
  std::map<absl::string_view, size_t> places;
  for (const auto& [slot, text] : failures) {
    const auto [place, first] = places.try_emplace(text, reasons.size());
    if (first) reasons.push_back({.text = text});
    reasons[place->second].slots.push_back(slot);
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const Reason& a, const Reason& b) {
    return a.slots.size() < b.slots.size();
  });
  return reasons;
}

std::string NameSlots(const std::vector<uint32_t>& slots, const v1::JobRecord& record) {
  std::string names;
  for (size_t i = 0; i < std::min(slots.size(), kMostSlots); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", "slot ", slots[i], " on worker ",
                    record.slots(slots[i]).worker_id());
  }
  if (slots.size() > kMostSlots) {
    absl::StrAppend(&names, " and ", slots.size() - kMostSlots, " more slots");
  }
  return names;
}

}  // namespace

std::string DescribeFailures(const std::map<uint32_t, std::string>& failures,
                             const v1::JobRecord& record) {
  const std::vector<Reason> reasons = Gather(failures);
  std::string text;
  size_t unnamed = 0;
  for (size_t i = 0; i < reasons.size(); ++i) {
    if (i >= kMostReasons) {
      unnamed += reasons[i].slots.size();
      continue;
    }
    absl::StrAppend(&text, i == 0 ? "" : "; ", NameSlots(reasons[i].slots, record), ": ",
                    Shortened(reasons[i].text, kMostReasonBytes));
  }
  if (unnamed > 0) absl::StrAppend(&text, "; and other reasons of ", unnamed, " more slots");
  return text;
}

}  // namespace muster
