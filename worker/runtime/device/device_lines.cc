#include "worker/runtime/device/device_lines.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr char kLeftOut[] = "- ";

}  // namespace

std::string FormatDevices(const FoundDevices& found) {
  std::string text;
  for (const OfferedDevice& device : found.devices) {
    absl::StrAppend(&text, device.number, " ", device.memory_bytes, " ", device.name, "\n");
  }
  for (const std::string& why : found.left_out) absl::StrAppend(&text, kLeftOut, why, "\n");
  return text;
}

absl::StatusOr<FoundDevices> ParseDevices(absl::string_view text) {
  FoundDevices found;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, kLeftOut)) {
      found.left_out.emplace_back(line);
      continue;
    }
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    OfferedDevice device;
    if (fields.size() != 3 || fields[2].empty() || !absl::SimpleAtoi(fields[0], &device.number) ||
        !absl::SimpleAtoi(fields[1], &device.memory_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", line, "\" in the list of devices is not a line of number, bytes and name"));
    }
    device.name = fields[2];
    found.devices.push_back(std::move(device));
  }
  return found;
}

}  // namespace muster
