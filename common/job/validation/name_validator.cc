#include "common/job/validation/name_validator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the control character (C0, DEL or C1) at this byte of a UTF-8 text, if there is one.
std::optional<uint32_t> ControlAt(size_t at, absl::string_view text) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return byte;
  // U+0080 to U+009F take two bytes.
  if (byte != 0xc2 || at + 1 == text.size()) return std::nullopt;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  if (second < 0x80 || second >= 0xa0) return std::nullopt;
  return second;
}

absl::Status ValidateText(absl::string_view field, absl::string_view text,
                          absl::string_view allowed = "") {
  for (size_t at = 0; at < text.size(); ++at) {
    const std::optional<uint32_t> control = ControlAt(at, text);
    if (!control.has_value() || absl::StrContains(allowed, text[at])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is \"", PrintableLine(text), "\", whose byte ", at,
                     absl::StrFormat(" is the control character U+%04X", *control),
                     "; leave line breaks, tabs and other control characters out"));
  }
  return absl::OkStatus();
}

absl::Status ValidateLength(absl::string_view field, size_t bytes, size_t most) {
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", bytes, " bytes; it may have ", most, " at most"));
}

absl::Status ValidateLabelName(absl::string_view name) {
  const bool fits = !name.empty() && name.size() <= kMostLabelNameBytes &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
                    });
  if (fits) return absl::OkStatus();
  constexpr size_t kMostShown = 80;
  return absl::InvalidArgumentError(absl::StrCat(
      "labels has the name \"", PrintableLine(CutUtf8(name, kMostShown)), "\"; a name has 1 to ",
      kMostLabelNameBytes, " letters, digits, `-`, `_`, `.` or `/`"));
}

absl::Status ValidateLabels(const v1::JobSpec& spec) {
  if (spec.labels_size() > static_cast<int>(kMostLabels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels has ", spec.labels_size(), " names; at most ", kMostLabels));
  }
  // Labels are checked in order of their names, so that the same wrong one is always reported.
  const std::map<std::string, std::string> labels(spec.labels().begin(), spec.labels().end());
  for (const auto& [name, value] : labels) {
    MUSTER_RETURN_IF_ERROR(ValidateLabelName(name));
    const std::string field = absl::StrCat("labels.", name);
    MUSTER_RETURN_IF_ERROR(ValidateLength(field, value.size(), kMostLabelValueBytes));
    MUSTER_RETURN_IF_ERROR(ValidateText(field, value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateNames(const v1::JobSpec& spec) {
  for (const auto& [field, text] :
       {std::pair("name", &spec.name()), std::pair("owner", &spec.owner()),
        std::pair("namespace", &spec.namespace_())}) {
    MUSTER_RETURN_IF_ERROR(ValidateText(field, *text));
  }
  MUSTER_RETURN_IF_ERROR(ValidateLabels(spec));
  MUSTER_RETURN_IF_ERROR(
      ValidateLength("description", spec.description().size(), kMostDescriptionBytes));
  return ValidateText("description", spec.description(), /*allowed=*/"\n\t");
}

}  // namespace muster
