#ifndef MUSTER_CLIENT_PROVE_PROOF_JOBS_H_
#define MUSTER_CLIENT_PROVE_PROOF_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace muster {

// The rate of a proof's step, by plain SGD: so large that the weights after it are the gradient,
// but for less than rounding.
inline constexpr float kProofRate = 1 << 20;

// One step of a job, from the same initial weights and of the same examples, twice.
struct ProofJobs {
  // On the job's mesh and road, and by one process.
  v1::JobSpec mesh;
  v1::JobSpec one;
  // They say what is otherwise than in the job; each is a sentence without its full stop.
  std::vector<std::string> notes;
  // The difference that is allowed, as a share of the gradient: rounding in f32 or in 16 bits.
  double tolerance = 0;
};

// Says whether a step clips its gradient as the job does, or not at all.
enum class ProofClipping { kNone, kAsTheJob };

// Returns the two jobs: one step of SGD at kProofRate, without schedule, decay, evaluation and
// checkpoints but the last, which measures the gradient's norm. `spec` is valid and has its
// defaults (FillDefaults). InvalidArgument: one process cannot make such a job's step, or nothing
// can be proved of it; says why and what to do.
absl::StatusOr<ProofJobs> MakeProofJobs(const v1::JobSpec& spec, ProofClipping clipping);

}  // namespace muster

#endif  // MUSTER_CLIENT_PROVE_PROOF_JOBS_H_
