#include "worker/strategy/servers/dense_runs.h"

namespace muster {

std::vector<std::vector<DenseRun>> DenseRunsByUnit(const DenseLayout& layout, int units,
                                                   uint64_t max_bytes) {
  std::vector<std::vector<DenseRun>> runs(units);
  const DenseLayout::Block* last = nullptr;
  for (const DenseLayout::Block& block : layout.blocks()) {
    std::vector<DenseRun>& of_unit = runs[block.unit];
    const bool same_group = last != nullptr && last->part == block.part &&
                            last->weight_decay == block.weight_decay &&
                            last->sign_rate == block.sign_rate && last->rate == block.rate &&
                            last->own_weight_decay == block.own_weight_decay;
    last = &block;
    const bool joins =
        same_group && !of_unit.empty() && of_unit.back().partition == block.partition &&
        of_unit.back().repeated == block.repeated &&
        // Blocks of other ranks may lie between neighbours.
        of_unit.back().first_block + of_unit.back().blocks == block.index_in_partition &&
        of_unit.back().end == block.begin &&
        (of_unit.back().elements() + block.elements()) * sizeof(float) <= max_bytes;
    if (!joins) {
      of_unit.push_back({.partition = block.partition,
                         .first_block = block.index_in_partition,
                         .begin = block.begin,
                         .repeated = block.repeated,
                         .frozen = block.frozen,
                         .pushed_as_f32 = block.sign_rate > 0});
    }
    ++of_unit.back().blocks;
    of_unit.back().end = block.end;
  }
  return runs;
}

}  // namespace muster
