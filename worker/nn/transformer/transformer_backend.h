#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BACKEND_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/compute/ops.h"
#include "common/kernels/accumulation.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/data/batch.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model.h"
#include "worker/nn/residual_stream.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/transformer_units.h"

namespace muster {

// Returns the rows of a batch whose sequences are of one length, without their positions.
inline TokenRows RowsOf(const Batch& batch) {
  if (batch.examples == 0) return {};
  return {.sequences = batch.examples,
          .length = static_cast<int64_t>(batch.tokens.size()) / batch.examples};
}

// The numbers in HeadSums, each of which is a sum.
inline constexpr int64_t kHeadSums = sizeof(HeadSums) / sizeof(double);

// One call of TransformerUnits for a micro-batch.
struct UnitCall {
  enum class Kind { kForward, kLastUnit, kBackward, kBackwardInput, kBackwardWeights };
  Kind kind = Kind::kForward;
  int unit = 0;
  // Says whether calls that have gradients write them or add to them.
  Accumulation gradients = Accumulation::kAdd;
};

// The places of the arrays of a micro-batch's pass, in the memory of `ops`.
struct PassMemory {
  Ops& ops;
  TokenRows rows;
  EmbeddingTokens tokens;
  LanguageHeadLoss loss;
  // Null where nobody reads them.
  RouterSums* router_sums = nullptr;
  uint64_t* expert_loads = nullptr;
  // ComputeContext::rank_offsets; null without expert ranks.
  int32_t* rank_offsets = nullptr;
  const DropoutClock* clock = nullptr;
  const float* loss_scale = nullptr;
  const TransformerArrays& arrays;
};

// A transformer's micro-batch on one kind of hardware: its arrays, and the way in which the calls
// of its units run.
class TransformerMicroBatch : public MicroBatch {
 public:
  // Takes in a batch that fits the model. InvalidArgument: it does not fit the memory; says what.
  virtual absl::Status Load(const Batch& batch) = 0;

  // Begins a pass over the batch: lays out its arrays, and takes what its calls read of `context`.
  virtual void Begin(const LayerContext& context) = 0;

  // Returns the pass's arrays.
  virtual PassMemory memory() = 0;

  // Runs a call, which takes handed_on and replaces it, now or, in order, with later ones. After
  // the last unit's, sums the loss over context ranks. Returns the status of what has run.
  using Body = std::function<ResidualStream(const ResidualStream& in)>;
  virtual absl::Status Run(const UnitCall& call, Body body) = 0;

  // Runs, in order, what is not the same each time that the unit runs: it reads or writes memory
  // from outside. Takes handed_on and replaces it. Returns the status of what has run.
  virtual absl::Status RunOnce(Body body) = 0;

  // Model::TakeResults.
  virtual absl::Status TakeResults() = 0;
};

// The hardware that a transformer is computed on: processors, or a device.
class TransformerBackend {
 public:
  virtual ~TransformerBackend() = default;

  // Returns FillRotaryTable's table in the memory of the ops; null without rotary positions.
  virtual const float* rotary_table() const = 0;

  // ModelDescription's.
  virtual int64_t most_examples() const = 0;
  virtual bool on_device() const = 0;

  virtual std::unique_ptr<TransformerMicroBatch> NewMicroBatch() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_BACKEND_H_
