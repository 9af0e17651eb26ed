#ifndef MUSTER_WORKER_NN_MODEL_H_
#define MUSTER_WORKER_NN_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/kernels/moe/expert_arrays.h"
#include "common/partition/tensor_spec.h"
#include "common/step/unit_range.h"
#include "worker/data/batch.h"
#include "worker/nn/class_predictions.h"
#include "worker/nn/layer.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model_parameters.h"
#include "worker/nn/residual_stream.h"
#include "worker/nn/sparse_rows.h"
#include "worker/nn/unit_boundaries.h"

namespace muster {

// Everything that is to be known of a model before any memory is allocated.
struct ModelDescription {
  // Dense tensors, in order of unit.
  std::vector<TensorSpec> tensors;
  std::vector<SparseTableSpec> sparse_tables;
  // Layer units, in forward order; tensors[i].unit < units.
  int units = 0;
  // The model's own metric: accuracy, auc, bits_per_byte or rmse.
  std::string default_metric;
  // Number of classes of a classifier of examples; 0 if the model predicts a number or tokens.
  int64_t classes = 0;
  // Experts of each block that has some; 0: there are none.
  int64_t experts = 0;
  // True if experts take a limited number of choices in training.
  bool drops_choices = false;
  // Most examples of a batch.
  int64_t most_examples = std::numeric_limits<int64_t>::max();
  // True if parameters and gradients lie in a device's memory, where only the model and the
  // strategy read them; and results are there after Model::TakeResults, which waits for the device.
  bool on_device = false;
};

// Activations and results of one micro-batch: all that a forward leaves for its backward, so any
// number may be between the two. Models derive from it.
class MicroBatch {
 public:
  virtual ~MicroBatch() = default;

  // Takes over a batch's size, labels and targets, and clears the results: the part of Model::Load
  // that all models share.
  void Start(const Batch& batch) {
    examples = batch.examples;
    loss_weight = batch.examples;
    loss_sum = 0;
    correct = 0;
    router_sums = {};
    std::fill(expert_loads.begin(), expert_loads.end(), 0);
    scores.clear();
    probabilities.clear();
    predicted.clear();
    labels = batch.labels;
    targets = batch.targets;
  }

  // Makes room for what a classifier predicts: the part of Load that classifiers of examples share,
  // after Start.
  void StartClasses(int64_t classes) {
    if (classes == 2) scores.resize(examples);
    if (!wants_probabilities) return;
    probabilities.resize(examples * classes);
    predicted.resize(examples);
  }

  // Returns where the classifier's head writes.
  ClassPredictions class_predictions() {
    return {.scores = absl::MakeSpan(scores),
            .probabilities = absl::MakeSpan(probabilities),
            .predicted = absl::MakeSpan(predicted)};
  }

  int64_t examples = 0;
  // What the gradient of a step is divided by, and means are taken over: the examples or, where
  // each has several labels, the labels. Known after Load.
  int64_t loss_weight = 0;
  // One per sparse table.
  std::vector<SparseRows> sparse;
  // Results of the forward pass, summed over all labels; loss in nats, unless a number is
  // predicted.
  double loss_sum = 0;
  int64_t correct = 0;
  // Results of backward in models with experts: of the tokens and blocks of this rank.
  RouterSums router_sums;
  // [blocks, experts]: how many of these tokens each expert got; with drops_choices a number more
  // for each block, of choices that were dropped. Empty without experts.
  std::vector<uint64_t> expert_loads;
  // Binary models: the probability of class 1. Models that predict a number: that number,
  // normalised as `targets` are. [examples]
  std::vector<float> scores;
  // Classifiers of examples, if wants_probabilities: see ClassPredictions. Models of language leave
  // them empty, and so do models that predict a number. [examples, classes] and [examples]
  std::vector<float> probabilities;
  std::vector<int32_t> predicted;
  std::vector<int32_t> labels;
  std::vector<float> targets;
  // What the unit that ran last hands to its neighbour: forward its output; backward, RunLastUnit
  // included, the gradients with regard to its input. Lies in this micro-batch's memory. Models
  // whose units find everything in the micro-batch itself (all but transformers on processors)
  // leave it empty.
  ResidualStream handed_on;
  // Set before Load: backward will be BackwardInput and BackwardWeights, and what the latter reads
  // has to stay.
  bool split_backward = false;
  // Set before Load: the forward pass writes `probabilities` and `predicted`.
  bool wants_probabilities = false;
  // Set before Load: the units that run, for which alone the model needs memory.
  UnitRange units;
};

// A model: layer units in a row, the last of which ends in the loss. Holds no parameter and no
// per-step state, so one instance serves any number of micro-batches at once. A unit reads the
// parameters of its own tensors alone, tied ones included. Thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelDescription& description() const = 0;

  virtual std::unique_ptr<MicroBatch> NewMicroBatch() const = 0;

  // Returns what units hand each other; null if the units must run in one process.
  virtual const UnitBoundaries* boundaries() const { return nullptr; }

  // Takes a batch in: sizes the activations, collects the distinct keys per sparse table (and sizes
  // `rows`), copies the labels, clears the results. InvalidArgument: the batch does not fit the
  // model (names what and both values).
  virtual absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const = 0;

  // Runs one unit forward; the last computes the loss and the results. Takes MicroBatch::handed_on
  // from the unit before, and replaces it, as all of these do. REQUIRES: units run in order; the
  // micro-batch came from NewMicroBatch of this model. In training the last unit is RunLastUnit's.
  virtual absl::Status Forward(const LayerContext& context, int unit,
                               const ModelParameters& parameters,
                               MicroBatch& micro_batch) const = 0;

  // Waits for the results of the passes over `micro_batch` since they were last taken, and leaves
  // their sums there. A no-op unless the model is on a device: otherwise results are there after
  // the last unit, those of one pass.
  virtual absl::Status TakeResults(MicroBatch& micro_batch) const { return absl::OkStatus(); }

  // Runs the last unit in training: forward with loss and results, and backward, as one action, so
  // that a model need keep only a part of the unit's outputs at a time. Leaves gradients as
  // Backward does. A model that does not override this has Forward and Backward of its last unit
  // called, in training too. REQUIRES: all units before it have run forward.
  virtual absl::Status RunLastUnit(const LayerContext& context, const ModelParameters& parameters,
                                   GradientSpans gradients, MicroBatch& micro_batch) const {
    const int unit = description().units - 1;
    absl::Status status = Forward(context, unit, parameters, micro_batch);
    if (!status.ok()) return status;
    return Backward(context, unit, parameters, gradients, micro_batch);
  }

  // Runs one unit backward: writes the gradients of the loss *sum* to `gradients` of this unit's
  // tensors, or adds them, as `context` says (of tied tensors the first unit to come writes), and
  // writes SparseRows::gradients where the unit looks rows up. REQUIRES: units in reverse order
  // after RunLastUnit, which has run the last.
  virtual absl::Status Backward(const LayerContext& context, int unit,
                                const ModelParameters& parameters, GradientSpans gradients,
                                MicroBatch& micro_batch) const = 0;

  // Backward in two actions, which leave gradients to the same bits: BackwardInput does all that
  // units before wait for, and BackwardWeights the rest, which may come after BackwardInput of any
  // units before. A model may do everything in the first; transformers put off the gradients of
  // matrices and their biases. BackwardInput has Backward's contract; BackwardWeights follows it,
  // with the same LayerContext::gradients. REQUIRES: micro_batch.split_backward.
  virtual absl::Status BackwardInput(const LayerContext& context, int unit,
                                     const ModelParameters& parameters, GradientSpans gradients,
                                     MicroBatch& micro_batch) const {
    return Backward(context, unit, parameters, gradients, micro_batch);
  }
  virtual absl::Status BackwardWeights(const LayerContext& context, int unit,
                                       GradientSpans gradients, MicroBatch& micro_batch) const {
    return absl::OkStatus();
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_MODEL_H_
