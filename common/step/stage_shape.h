#ifndef MUSTER_COMMON_STEP_STAGE_SHAPE_H_
#define MUSTER_COMMON_STEP_STAGE_SHAPE_H_

#include <vector>

#include "common/step/unit_range.h"

namespace muster {

// The order in which the stages of a step compute micro-batches (compute_order.h).
enum class StageOrder { kLayerWise, kGPipe, kOneForwardOneBackward, kInterleaved, kZeroBubble };

// The division of a step among stages, of which a job without a pipeline has one, and into
// micro-batches. The layers of a model are divided into virtual stages of neighbours, numbered in
// order of the layers: virtual stage g is chunk g / stages of stage g mod stages.
struct StageShape {
  StageOrder order = StageOrder::kOneForwardOneBackward;
  int stages = 1;
  // Number of virtual stages on each stage; 1 unless the order is kInterleaved.
  int chunks = 1;
  // Number of micro-batches of a step: 1 if the order is kLayerWise, a multiple of `stages` if it
  // is kInterleaved.
  int micro_batches = 1;

  int virtual_stages() const { return stages * chunks; }
  int VirtualStage(int stage, int chunk) const { return chunk * stages + stage; }
};

// One stage of a step, and how many units of the model each virtual stage has.
struct ModelStage {
  StageShape shape;
  int stage = 0;
  // By virtual stage; together all units of the model.
  std::vector<int> sizes;

  // Returns the number of the model's units.
  int units() const { return FirstUnit(shape.virtual_stages()); }
  // Returns the first unit of a virtual stage; of shape.virtual_stages(), the number of all units.
  int FirstUnit(int virtual_stage) const;
  // Returns the units from the first of one chunk of the stage to the last of another. Those with
  // the model's last unit have no end.
  UnitRange UnitsOf(int first_chunk, int last_chunk) const;
};

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STAGE_SHAPE_H_
