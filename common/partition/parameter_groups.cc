#include "common/partition/parameter_groups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/partition/matrices.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns whether the name is the pattern's, in which `*` stands for any characters.
bool Matches(absl::string_view pattern, absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '*');
  if (parts.size() == 1) return name == pattern;
  if (name.size() < parts.front().size() + parts.back().size()) return false;
  if (!absl::ConsumePrefix(&name, parts.front()) || !absl::ConsumeSuffix(&name, parts.back())) {
    return false;
  }
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t at = name.find(parts[i]);
    if (at == absl::string_view::npos) return false;
    name.remove_prefix(at + parts[i].size());
  }
  return true;
}

bool HasTensor(const v1::ParameterGroup& group, const TensorSpec& tensor) {
  return std::any_of(
      group.names().begin(), group.names().end(),
      [&tensor](const std::string& pattern) { return Matches(pattern, tensor.name); });
}

// Checks that the pattern names a tensor that can be in a group.
absl::Status CheckPattern(absl::string_view field, absl::string_view pattern,
                          absl::Span<const TensorSpec> tensors) {
  const TensorSpec* tied = nullptr;
  for (const TensorSpec& tensor : tensors) {
    if (!Matches(pattern, tensor.name)) continue;
    if (tensor.tied_to.empty()) return absl::OkStatus();
    tied = &tensor;
  }
  if (tied != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is \"", pattern,
                                                   "\", but this tensor's weights are those of ",
                                                   tied->tied_to, ": name that one instead"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is \"", pattern, "\", which names none of the model's ", tensors.size(),
                   " tensors: `muster plan --tensors` lists their names"));
}

absl::Status JoinGroup(absl::string_view field, const v1::ParameterGroup& group,
                       TensorSpec& tensor) {
  if (tensor.sign_rate > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " names ", tensor.name,
                     ", which moves by signs alone, whatever its group: leave it out"));
  }
  tensor.frozen = tensor.frozen || group.frozen();
  if (group.has_rate()) tensor.rate = group.rate();
  if (group.has_weight_decay()) {
    tensor.weight_decay = false;
    tensor.own_weight_decay = group.weight_decay();
  }
  return absl::OkStatus();
}

void FreezeAllButAdapters(absl::Span<TensorSpec> tensors) {
  for (TensorSpec& tensor : tensors) {
    if (IsAdapter(tensor.name)) continue;
    tensor.frozen = true;
    tensor.sign_rate = 0;
  }
}

// Puts tied tensors into the groups of their owners.
void FollowOwners(absl::Span<TensorSpec> tensors) {
  absl::flat_hash_map<absl::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  for (TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty()) continue;
    const TensorSpec& owner = *by_name.at(tensor.tied_to);
    tensor.frozen = owner.frozen;
    tensor.rate = owner.rate;
    tensor.weight_decay = owner.weight_decay;
    tensor.own_weight_decay = owner.own_weight_decay;
  }
}

absl::Status SetGroups(const v1::JobSpec& spec, absl::Span<TensorSpec> tensors) {
  if (!spec.has_adapter() && spec.optimizer().groups().empty()) return absl::OkStatus();
  if (spec.has_adapter()) FreezeAllButAdapters(tensors);
  std::vector<bool> has_group(tensors.size());
  for (int i = 0; i < spec.optimizer().groups_size(); ++i) {
    const v1::ParameterGroup& group = spec.optimizer().groups(i);
    const std::string field = absl::StrCat("optimizer.groups[", i, "].names");
    for (const std::string& pattern : group.names()) {
      MUSTER_RETURN_IF_ERROR(CheckPattern(field, pattern, tensors));
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (has_group[t] || !tensors[t].tied_to.empty() || !HasTensor(group, tensors[t])) continue;
      has_group[t] = true;
      MUSTER_RETURN_IF_ERROR(JoinGroup(field, group, tensors[t]));
    }
  }
  FollowOwners(tensors);
  const bool trains = std::any_of(tensors.begin(), tensors.end(),
                                  [](const TensorSpec& tensor) { return !tensor.frozen; });
  if (trains || tensors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "optimizer.groups freeze all tensors: leave some to be trained, or use stop.evaluate_only");
}

}  // namespace

absl::Status SetParameterGroups(const v1::JobSpec& spec, absl::Span<TensorSpec> tensors) {
  MUSTER_RETURN_IF_ERROR(SetGroups(spec, tensors));
  if (spec.optimizer().name() == "muon") SetMatrices(tensors);
  return absl::OkStatus();
}

}  // namespace muster
