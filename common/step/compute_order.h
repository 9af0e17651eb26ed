#ifndef MUSTER_COMMON_STEP_COMPUTE_ORDER_H_
#define MUSTER_COMMON_STEP_COMPUTE_ORDER_H_

#include <vector>

#include "common/step/action.h"
#include "common/step/stage_shape.h"

namespace muster {

// Returns the passes of one stage in the order in which it computes them, without sends and
// receives. Every chunk runs backward in order of micro-batches, so that sums of gradients have the
// same bits under every order. With p stages, v chunks and m micro-batches, where a virtual stage
// takes F forward, B for the gradient of its input and W for that of its weights, and transfers
// take no time:
//
//   order         a stage holds at most so many micro-batches of a virtual stage    a stage is idle
//   for layer-wise    1                                                         (p - 1)(F + B + W)
//   GPipe         m                                                         (p - 1)(F + B + W)
//   1F1B          min(m, p - stage)                                         (p - 1)(F + B + W)
//   interleaved   min(v m, 2 (p - stage - 1) + (v - 1) p + 1)               (p - 1)(F + B + W)
//   zero bubble   min(m, p - stage) whole ones, and min(m, p) with those    (p - 1)(F + B - W), if
//                 whose gradients of weights are still to come              m >= p and F = B = W
//
// where the work of a step is m v (F + B + W). Sources: Huang et al., "GPipe", 2019; Narayanan et
// al., "PipeDream", 2019 (1F1B), and "Efficient Large-Scale Language Model Training on GPU Clusters
// Using Megatron-LM", 2021, section 2.2 (interleaved); Qi et al., "Zero Bubble Pipeline
// Parallelism", 2024, section 2 (ZB-H1).
//
// Of p = 2 stages and m = 4 micro-batches (forward 0 1 2 3; backward a b c d, weights A B C D):
//
//   1F1B          01  aa2bb3cc dd        zero bubble   01 aA2bB3cCdD
//                  0aa1bb2cc3dd                        0a1bA2cB3dCD
//
// REQUIRES: the shape is as stage_shape.h says; 0 <= stage < stages.
std::vector<StepAction> ComputeOrder(const StageShape& shape, int stage);

// Returns the number of activation stashes, each of one micro-batch and one virtual stage, that the
// stage has at most: the second column above, of zero bubble with those whose gradients of weights
// are still to come. REQUIRES: as above.
int MostActivationStashes(const StageShape& shape, int stage);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_COMPUTE_ORDER_H_
