#include "worker/strategy/group/gradients/tensor_ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/local_tensors.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {

absl::StatusOr<std::unique_ptr<TensorRanks>> TensorRanks::Create(
    Communicator* tensor_group, absl::Span<const TensorSpec> tensors, const Options& options) {
  if (tensor_group == nullptr) return nullptr;
  std::unique_ptr<TensorRanks> sums(new TensorRanks(*tensor_group, options));
  // The shared elements by number of ranks, in the same order on all ranks.
  std::map<int, std::vector<Elements>> shared;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const SharedElements& elements : PartialElements(tensors[t], options.divides_tokens)) {
      shared[elements.ranks].push_back({t, elements.begin, elements.end});
    }
  }
  const int rank = tensor_group->rank();
  for (const auto& [ranks, elements] : shared) {
    Communicator* group = tensor_group;
    if (ranks < tensor_group->size()) {
      MUSTER_ASSIGN_OR_RETURN(sums->groups_[ranks], tensor_group->Split(rank / ranks, rank));
      group = sums->groups_[ranks].get();
    }
    for (const Elements& some : elements) {
      const uint32_t unit = tensors[some.tensor].unit;
      sums->calls_.resize(std::max<size_t>(sums->calls_.size(), unit + 1));
      std::vector<Call>& calls = sums->calls_[unit];
      if (calls.empty() || calls.back().group != group) {
        calls.push_back({.group = group, .label = absl::StrCat("shared gradients of unit ", unit)});
      }
      calls.back().elements.push_back(some);
      calls.back().count += some.end - some.begin;
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
      count = std::max(count, call.count);
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
    for (const Elements& some : call.elements) {
      options_.ops->Copy(ElementsOf(some, gradients), next);
      next += some.end - some.begin;
    }
    MUSTER_RETURN_IF_ERROR(options_.run(*call.group, muster::Sum(absl::MakeSpan(packed, call.count),
                                                                 options_.timeout, call.label)));
    next = packed;
    for (const Elements& some : call.elements) {
      const absl::Span<float> gradient = ElementsOf(some, gradients);
      options_.ops->Copy({next, gradient.size()}, gradient.data());
      next += gradient.size();
    }
  }
  return absl::OkStatus();
}

absl::Span<float> TensorRanks::ElementsOf(const Elements& some, GradientSpans gradients) {
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
