#ifndef MUSTER_COMMON_PIPELINE_PIPELINE_ACTION_H_
#define MUSTER_COMMON_PIPELINE_PIPELINE_ACTION_H_

namespace muster {

// The order in which the stages of a pipeline compute micro-batches (compute_order.h).
enum class PipelineOrder { kLayerWise, kGPipe, kOneForwardOneBackward, kInterleaved, kZeroBubble };

// The size of a pipeline. The layers of a model are divided into groups of neighbours, numbered in
// order of the layers: group g is chunk g / stages of stage g mod stages.
struct PipelineShape {
  PipelineOrder order = PipelineOrder::kOneForwardOneBackward;
  int stages = 1;
  // Number of groups on each stage; 1 unless the order is kInterleaved.
  int chunks = 1;
  // Number of micro-batches of a step: 1 if the order is kLayerWise, a multiple of `stages` if it
  // is kInterleaved.
  int micro_batches = 1;

  int groups() const { return stages * chunks; }
  int Group(int stage, int chunk) const { return chunk * stages + stage; }
};

// One thing that a stage does in a step, with one micro-batch and one of its groups of layers.
struct PipelineAction {
  enum class Kind {
    kForward,
    // Computes the gradients of the group's input and of its weights.
    kBackward,
    // The same in two actions: what earlier groups wait for, and the rest.
    kBackwardInput,
    kBackwardWeights,
    // The input of the group, from the stage that has the group before.
    kReceiveActivation,
    // The output of the group, to the stage that has the next.
    kSendActivation,
    // The gradient of the group's output, from the stage that has the next.
    kReceiveGradient,
    // The gradient of the group's input, to the stage that has the group before.
    kSendGradient,
  };

  Kind kind = Kind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  // The other stage of a send or receive.
  int peer = -1;

  bool receives() const {
    return kind == Kind::kReceiveActivation || kind == Kind::kReceiveGradient;
  }
  bool sends() const { return kind == Kind::kSendActivation || kind == Kind::kSendGradient; }
  bool transfers() const { return receives() || sends(); }

  friend bool operator==(const PipelineAction& a, const PipelineAction& b) = default;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PIPELINE_PIPELINE_ACTION_H_
