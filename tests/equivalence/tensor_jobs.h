#ifndef MUSTER_TESTS_EQUIVALENCE_TENSOR_JOBS_H_
#define MUSTER_TESTS_EQUIVALENCE_TENSOR_JOBS_H_

#include <cstdint>
#include <set>
#include <string>

#include "common/files/temp_folder.h"
#include "proto/job.pb.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/training_run.h"

namespace muster {

// Jobs whose layers tensor ranks divide, on either road.

enum class TensorShape { kGpt2, kLlama, kPerceptron, kExperts };

// Returns the shape's name in the names of tests.
std::string NameOf(TensorShape shape);

// Returns a job whose sums are made in order. In GPT-2's shape it has dropout, biases, a tied head
// and a padded vocabulary; in Llama's, grouped heads, of which there are fewer than four ranks, and
// what newer models have: heads that are wider together than the model, biases of attention,
// norms of heads, scaled angles and a window. The shape of experts is an older Llama's with experts
// and a shared one in every other block, the last one among them. The text that it reads is written
// to the folder.
v1::JobSpec TensorJob(TensorShape shape, const TempFolder& folder);

// Returns TensorJob with so many blocks, or hidden layers of a perceptron, in four micro-batches
// and with clipping: a job for a pipeline's stages to divide.
v1::JobSpec PipelineJob(TensorShape shape, const TempFolder& folder, uint32_t blocks = 3);

// Returns the job on a mesh, with a ZeRO stage; shard groups are of `shard` data ranks, or of all
// if it is 0.
v1::JobSpec OnMesh(v1::JobSpec spec, uint32_t tensor, uint32_t data, uint32_t stage = 0,
                   uint32_t shard = 0);

// Returns the job with its data ranks divided into so many context ranks each.
v1::JobSpec InContext(v1::JobSpec spec, uint32_t context,
                      v1::ParallelismSpec::ContextExchange exchange = v1::ParallelismSpec::RING);

// Returns the job in f16 and in so many steps, with a loss scale that doubles with each of them
// until gradients overflow, on whatever rank. Such steps are left out by all.
v1::JobSpec InFloat16(v1::JobSpec spec, uint64_t steps);

// Returns the job with one step, which is so large that only the gradients are left of the weights.
v1::JobSpec ForGradients(v1::JobSpec spec);

// Returns the job in a pipeline of as many stages, each on the job's mesh.
v1::JobSpec InPipeline(v1::JobSpec spec, uint32_t stages,
                       v1::ParallelismSpec::PipelineSchedule schedule);

v1::JobSpec ByAllReduce(v1::JobSpec spec);
v1::JobSpec WithoutSequence(v1::JobSpec spec);

// Returns the values that a run ended with, and expects them to be the same on all ranks.
TrainedValues SameOfAllRanks(const RunResult& run);
// Takes the biases out of `values`.
TrainedValues TakeBiases(TrainedValues& values);
// Train the job on one of the roads, and return these.
TrainedValues ValuesOnServers(const v1::JobSpec& spec, const RunOptions& options = {});
TrainedValues ValuesByAllReduce(const v1::JobSpec& spec, const RunOptions& options = {});

// Loses a rank, and expects its successor and its peers to repeat the clock: that all end in these
// values. On servers ranks are to meet once more for it.
void ExpectLossIsRepaired(const v1::JobSpec& spec, const Death& death,
                          const TrainedValues& expected);

// Returns the steps, the last one not counted, whose gradients the slots of an undisturbed run of
// an f16 job have left out, and expects these to be the same of all slots. A slot whose own
// gradients are finite may hear of the last step's overflow only with a pull that it does not make.
std::set<int> StepsLeftOut(const v1::JobSpec& spec, const RunResult& run);

// Expects the run's evaluations to be those of one process, each example counted once.
void ExpectEvaluationsOf(const RunResult& alone, const RunResult& run);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_TENSOR_JOBS_H_
