#include "server/page/request_target.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr size_t kMostParts = 16;
constexpr size_t kMostFields = 64;

enum class PlusIs { kPlus, kSpace };

// Returns the decoded text; absent: it has a bad escape or a control character, or is not UTF-8.
std::optional<std::string> Decoded(absl::string_view text, PlusIs plus) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
          !absl::ascii_isxdigit(text[i + 2])) {
        return std::nullopt;
      }
      c = static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else if (c == '+' && plus == PlusIs::kSpace) {
      c = ' ';
    }
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return std::nullopt;
    decoded.push_back(c);
  }
  if (!IsUtf8(decoded)) return std::nullopt;
  return decoded;
}

absl::Status BadText() {
  return absl::InvalidArgumentError(
      "the request's target has a bad escape, a control character, or text that is not UTF-8");
}

}  // namespace

absl::StatusOr<RequestTarget> ParseTarget(absl::string_view target) {
  if (!absl::StartsWith(target, "/") || absl::StartsWith(target, "//") ||
      absl::StrContains(target, '#')) {
    return absl::InvalidArgumentError("the request's target must have the form /PATH?QUERY");
  }
  RequestTarget parsed;
  const size_t question = target.find('?');
  const absl::string_view path = target.substr(0, question);
  if (path != "/") {
    for (const absl::string_view part : absl::StrSplit(path.substr(1), '/')) {
      std::optional<std::string> decoded = Decoded(part, PlusIs::kPlus);
      if (!decoded.has_value()) return BadText();
      if (parsed.path.size() == kMostParts) {
        return absl::InvalidArgumentError("the request's path has too many parts");
      }
      parsed.path.push_back(*std::move(decoded));
    }
  }
  if (question == absl::string_view::npos || question + 1 == target.size()) return parsed;
  for (const absl::string_view field : absl::StrSplit(target.substr(question + 1), '&')) {
    const size_t equals = field.find('=');
    std::optional<std::string> name = Decoded(field.substr(0, equals), PlusIs::kSpace);
    std::optional<std::string> value = equals == absl::string_view::npos
                                           ? std::string()
                                           : Decoded(field.substr(equals + 1), PlusIs::kSpace);
    if (!name.has_value() || !value.has_value()) return BadText();
    if (parsed.query.size() == kMostFields) {
      return absl::InvalidArgumentError(
          absl::StrCat("the request's query has more than ", kMostFields, " fields"));
    }
    parsed.query.emplace_back(*std::move(name), *std::move(value));
  }
  return parsed;
}

}  // namespace muster
