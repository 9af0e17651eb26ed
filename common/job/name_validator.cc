#include "common/job/name_validator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
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

absl::Status ValidateText(absl::string_view field, absl::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const std::optional<uint32_t> control = ControlAt(at, text);
    if (!control.has_value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is \"", absl::CHexEscape(text), "\", whose byte ", at,
                     absl::StrFormat(" is the control character U+%04X", *control),
                     "; leave line breaks, tabs and other control characters out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateNames(const v1::JobSpec& spec) {
  for (const auto& [field, text] :
       {std::pair("name", &spec.name()), std::pair("owner", &spec.owner()),
        std::pair("namespace", &spec.namespace_())}) {
    if (absl::Status status = ValidateText(field, *text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace muster
