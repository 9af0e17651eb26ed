#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_SUMS_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_SUMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace muster {

namespace v1 {
class ExpertLoads;
}  // namespace v1

// The least and the most loaded expert of any block: its tokens over the mean of its block's.
struct LoadRange {
  double lowest = 0;
  double highest = 0;
};

// The number of tokens for which each expert of each block was chosen: a job's reports, added up.
// Tasks of different stages report different blocks. Not thread-safe.
class ExpertSums {
 public:
  // Adds a report's loads. REQUIRES: they passed CheckReport.
  void Add(const v1::ExpertLoads& loads);
  void Add(const ExpertSums& other);

  bool empty() const { return blocks_.empty(); }
  // Returns the range of the blocks' loads; nothing if no expert has tokens.
  std::optional<LoadRange> Range() const;
  // Returns the share of all choices that were dropped.
  double DroppedShare() const;
  void CopyTo(v1::ExpertLoads& loads) const;

 private:
  std::vector<uint64_t>& Block(uint32_t block, size_t experts);

  // [E] by block; E is the same in all.
  std::map<uint32_t, std::vector<uint64_t>> blocks_;
  // Choices that were dropped, by block, if any were.
  std::map<uint32_t, uint64_t> dropped_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_EXPERT_SUMS_H_
