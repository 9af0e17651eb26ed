#include "client/commands/arguments/choices.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/text/nearest_name.h"

namespace muster {
namespace {

constexpr char kOneOf[] = "one of";

}  // namespace

OneOf::OneOf(const std::vector<std::string>& names) : CLI::Validator("") {
  name_ = kOneOf;
  // This is also where ChoicesOf finds them.
  desc_function_ = [names] { return absl::StrCat("{", absl::StrJoin(names, ","), "}"); };
  func_ = [names](std::string& value) -> std::string {
    for (const std::string& name : names) {
      if (!absl::EqualsIgnoreCase(name, value)) continue;
      value = name;
      return "";
    }
    return absl::StrCat("it is \"", value, "\"; ", DidYouMeanQuestion(NearestName(value, names)),
                        "It takes ", JoinWithOr(names));
  };
}

std::vector<std::string> ChoicesOf(CLI::Option& option) {
  try {
    const std::string braced = option.get_validator(std::string(kOneOf))->get_description();
    return absl::StrSplit(absl::StripSuffix(absl::StripPrefix(braced, "{"), "}"), ',');
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

std::string DidYouMeanQuestion(const std::optional<std::string>& near) {
  return near.has_value() ? absl::StrCat("did you mean ", *near, "? ") : "";
}

std::string JoinWithOr(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

}  // namespace muster
