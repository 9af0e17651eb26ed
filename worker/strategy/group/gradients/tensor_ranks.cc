#include "worker/strategy/group/gradients/tensor_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {

absl::StatusOr<std::unique_ptr<TensorRanks>> TensorRanks::Create(
    Communicator* tensor_group, absl::Span<const TensorSpec> tensors, const Options& options) {
  if (tensor_group == nullptr) return nullptr;
  std::unique_ptr<TensorRanks> sums(new TensorRanks(*tensor_group, options));
  const int rank = tensor_group->rank();
  std::vector<std::vector<SharedSum>> by_unit = SharedSums(tensors, options.divides_tokens);
  // All ranks make the same groups in the same order.
  std::map<int, Communicator*> groups;
  for (const std::vector<SharedSum>& of_unit : by_unit) {
    for (const SharedSum& sum : of_unit) groups[sum.ranks] = tensor_group;
  }
  for (auto& [ranks, group] : groups) {
    if (ranks == tensor_group->size()) continue;
    MUSTER_ASSIGN_OR_RETURN(sums->groups_[ranks], tensor_group->Split(rank / ranks, rank));
    group = sums->groups_[ranks].get();
  }
  for (std::vector<SharedSum>& of_unit : by_unit) {
    std::vector<Call>& calls = sums->calls_.emplace_back();
    for (SharedSum& sum : of_unit) {
      calls.push_back(
          {.group = groups[sum.ranks],
           .sum = std::move(sum),
           .label = absl::StrCat("shared gradients of unit ", sums->calls_.size() - 1)});
    }
  }
  MUSTER_RETURN_IF_ERROR(sums->Allocate());
  return sums;
}

absl::Status TensorRanks::Allocate() {
  // In the order of groups_, which is the same on all ranks.
  std::map<int, std::pair<Communicator*, size_t>> most;
  for (const std::vector<Call>& calls : calls_) {
    for (const Call& call : calls) {
      auto& [group, count] = most[call.group->size()];
      group = call.group;
      count = std::max<size_t>(count, call.sum.count);
    }
  }
  for (const auto& [ranks, of_group] : most) {
    const auto& [group, count] = of_group;
    MUSTER_ASSIGN_OR_RETURN(packed_[group], group->Allocate(count * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status TensorRanks::Sum(int unit, GradientSpans gradients) {
  if (unit >= static_cast<int>(calls_.size())) return absl::OkStatus();
  for (const Call& call : calls_[unit]) {
    float* const packed = PackedOf(call);
    float* next = packed;
    for (const SharedSum::Elements& some : call.sum.elements) {
      options_.ops->Copy(ElementsOf(some, gradients), next);
      next += some.end - some.begin;
    }
    MUSTER_RETURN_IF_ERROR(options_.run(
        *call.group,
        muster::Sum(absl::MakeSpan(packed, call.sum.count), options_.timeout, call.label)));
    next = packed;
    for (const SharedSum::Elements& some : call.sum.elements) {
      const absl::Span<float> gradient = ElementsOf(some, gradients);
      options_.ops->Copy({next, gradient.size()}, gradient.data());
      next += gradient.size();
    }
  }
  return absl::OkStatus();
}

absl::Span<float> TensorRanks::ElementsOf(const SharedSum::Elements& some,
                                          GradientSpans gradients) {
  return gradients[some.tensor].subspan(some.begin, some.end - some.begin);
}

CollectiveTraffic TensorRanks::traffic() const {
  CollectiveTraffic sum = communicator_.traffic();
  for (const auto& [ranks, group] : groups_) Add(group->traffic(), sum.sent, sum.received);
  return sum;
}

std::vector<const FlightRecorder*> TensorRanks::recorders() const {
  std::vector<const FlightRecorder*> recorders;
  for (const auto& [ranks, group] : groups_) recorders.push_back(&group->recorder());
  return recorders;
}

}  // namespace muster
