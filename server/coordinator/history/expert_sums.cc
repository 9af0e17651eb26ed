#include "server/coordinator/history/expert_sums.h"

#include <algorithm>
#include <numeric>

#include "proto/status.pb.h"

namespace muster {

std::vector<uint64_t>& ExpertSums::Block(uint32_t block, size_t experts) {
  return blocks_.try_emplace(block, experts).first->second;
}

void ExpertSums::Add(const v1::ExpertLoads& loads) {
  auto tokens = loads.tokens().begin();
  for (const uint32_t block : loads.blocks()) {
    for (uint64_t& sum : Block(block, loads.experts())) sum += *tokens++;
  }
  for (int i = 0; i < loads.dropped_size(); ++i) {
    if (loads.dropped(i) > 0) dropped_[loads.blocks(i)] += loads.dropped(i);
  }
}

void ExpertSums::Add(const ExpertSums& other) {
  for (const auto& [block, tokens] : other.blocks_) {
    std::vector<uint64_t>& sums = Block(block, tokens.size());
    for (size_t e = 0; e < sums.size(); ++e) sums[e] += tokens[e];
  }
  for (const auto& [block, dropped] : other.dropped_) dropped_[block] += dropped;
}

std::optional<LoadRange> ExpertSums::Range() const {
  std::optional<LoadRange> range;
  for (const auto& [block, tokens] : blocks_) {
    const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
    if (sum == 0) continue;
    const double mean = sum / static_cast<double>(tokens.size());
    const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
    const LoadRange of_block = {static_cast<double>(*least) / mean,
                                static_cast<double>(*most) / mean};
    if (!range.has_value()) range = of_block;
    range->lowest = std::min(range->lowest, of_block.lowest);
    range->highest = std::max(range->highest, of_block.highest);
  }
  return range;
}

double ExpertSums::DroppedShare() const {
  double kept = 0, dropped = 0;
  for (const auto& [block, tokens] : blocks_) {
    kept += std::accumulate(tokens.begin(), tokens.end(), 0.0);
  }
  for (const auto& [block, choices] : dropped_) dropped += static_cast<double>(choices);
  return dropped == 0 ? 0 : dropped / (kept + dropped);
}

void ExpertSums::CopyTo(v1::ExpertLoads& loads) const {
  for (const auto& [block, tokens] : blocks_) {
    loads.set_experts(static_cast<uint32_t>(tokens.size()));
    loads.add_blocks(block);
    loads.mutable_tokens()->Add(tokens.begin(), tokens.end());
    if (dropped_.empty()) continue;
    const auto dropped = dropped_.find(block);
    loads.add_dropped(dropped == dropped_.end() ? 0 : dropped->second);
  }
}

}  // namespace muster
