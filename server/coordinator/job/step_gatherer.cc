#include "server/coordinator/job/step_gatherer.h"

#include <algorithm>
#include <cstddef>

namespace muster {

void StepGatherer::Add(const v1::VerifyStepRequest& request) {
  if (any() && clock() != request.clock()) Clear();
  requests_[request.task().slot()] = request;
}

std::vector<ShareOpinion> StepGatherer::Opinions(const Mesh& mesh,
                                                 const std::vector<uint32_t>& slots) const {
  std::vector<ShareOpinion> opinions;
  for (size_t rank = 0; rank < slots.size(); ++rank) {
    const auto found = requests_.find(slots[rank]);
    if (found == requests_.end()) continue;
    const int part = mesh.Position(static_cast<int>(rank), kModelAxes);
    for (const v1::ShareFingerprint& share : found->second.shares()) {
      opinions.push_back({.slot = slots[rank],
                          .part = part,
                          .share = share.data_rank(),
                          .gradients = share.gradients()});
    }
  }
  return opinions;
}

std::map<std::string, std::set<uint32_t>> StepGatherer::Processors() const {
  std::map<std::string, std::set<uint32_t>> processors;
  for (const auto& [slot, request] : requests_) processors[request.processor()].insert(slot);
  return processors;
}

StepGatherer::Behind StepGatherer::FindBehind() const {
  Behind behind = {.attempt = requests_.begin()->second.attempt()};
  for (const auto& [slot, request] : requests_) {
    behind.attempt = std::min(behind.attempt, request.attempt());
  }
  for (const auto& [slot, request] : requests_) {
    if (request.attempt() == behind.attempt) behind.slots.insert(slot);
  }
  return behind;
}

}  // namespace muster
