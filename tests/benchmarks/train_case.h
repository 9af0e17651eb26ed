#ifndef MUSTER_TESTS_BENCHMARKS_TRAIN_CASE_H_
#define MUSTER_TESTS_BENCHMARKS_TRAIN_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// One model, batch and type to measure training of. Peers know it by its name.
struct TrainCase {
  // Such as "gpt2-124m".
  std::string name;
  // "f32" or "bf16".
  std::string type;
  // What a step's rate counts: "tokens" or "samples", and how many it has.
  std::string unit;
  int64_t items = 0;
  // Of matrix products and attention, forward and backward, for one of them: 6 N + 6 L C T with the
  // N parameters that are multiplied with (PaLM, Chowdhery et al., 2022, appendix B, for the causal
  // half).
  double flops_per_item = 0;
  v1::JobSpec spec;
  DatasetInfo data;
};

// All of them, in the order to measure.
std::vector<TrainCase> TrainCases();

// Random examples of a case, the same every time.
std::vector<Batch> RandomBatches(const TrainCase& one, int count);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_TRAIN_CASE_H_
