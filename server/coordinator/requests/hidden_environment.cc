#include "server/coordinator/requests/hidden_environment.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kHidden[] = "(not shown)";

}  // namespace

void HideEnvironment(v1::JobSpec& spec) {
  if (!spec.model().has_program()) return;
  for (auto& [name, value] : *spec.mutable_model()->mutable_program()->mutable_environment()) {
    value = kHidden;
  }
}

void TakeHiddenValues(const v1::JobSpec& source, v1::JobSpec& spec) {
  if (!spec.model().has_program()) return;
  const auto& values = source.model().program().environment();
  for (auto& [name, value] : *spec.mutable_model()->mutable_program()->mutable_environment()) {
    const auto found = values.find(name);
    if (value == kHidden && found != values.end()) value = found->second;
  }
}

absl::Status CheckNothingHidden(const v1::JobSpec& spec) {
  for (const auto& [name, value] : spec.model().program().environment()) {
    if (value != kHidden) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.program.environment.", name, " is \"", kHidden,
                     "\", which stands for a value when a job is shown; write the value"));
  }
  return absl::OkStatus();
}

}  // namespace muster
