#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_BEST_CHECKPOINT_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_BEST_CHECKPOINT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_name.h"
#include "proto/job_record.pb.h"

namespace muster {

// The best, not the last: the checkpoint of a job's best evaluation, JOB@best, is kept beside the
// last ones (CheckpointSpec.keep_best).
//
//   evaluation at clock c   all tasks wait for the answer before they train on, and only then take
//                           the checkpoint that is due at c (worker/runtime/training/trainer.h)
//   the answer              asks for a checkpoint at c if the evaluation is better than all whose
//                           checkpoints are kept (IsWorthKeeping). It is taken like any other: in
//                           the background on servers, whole by all-reduce, a delta if one is due
//   its commit              makes it the best; the best before goes, unless it is among the last
//   the last evaluation     is of the last checkpoint, which is there before it
//
// There is no record of which one is the best: that follows from the evaluations and checkpoints of
// the job's record (BestEvaluation), so it is the same after a restart of the coordinator. A
// roll-back removes later evaluations, and so what they were the best of. If a checkpoint is lost
// or given up (a full disk, a lost task), damaged or deleted, its evaluation does not count any
// more: the best of the others is the best, and the next evaluation that is better than that one is
// kept. Tasks that repeat an evaluation must get the first answer again, since a cut waits for all
// of them: Job::kept_evaluation has it. All are functions of the record.

// Returns whether a job keeps its best checkpoint: a job that trains does, unless it runs a program
// or its specification says otherwise.
bool KeepsBest(const v1::JobSpec& spec);

// Returns the best evaluation of those at whose clock there is a sound checkpoint, the earliest of
// equal ones; null: there is none, or the job does not keep it. Valid while the record is
// unchanged.
const v1::EvaluationResult* BestEvaluation(const v1::JobRecord& record);

// Returns whether the tasks are to keep the weights that `result` is of: it is better than all
// earlier evaluations whose checkpoint is kept, or is under way at clock `under_way`. Weights that
// the job resumes from are not worth it: they are kept by the other job.
bool IsWorthKeeping(const v1::EvaluationResult& result, const v1::JobRecord& record,
                    std::optional<uint64_t> under_way);

// Returns the checkpoint that a name means among those of its job, valid while the record is
// unchanged; the name's job is not looked at. Errors as FindCheckpoint's; NOT_FOUND says why there
// is no best one.
absl::StatusOr<const v1::CheckpointRecord*> FindNamedCheckpoint(const v1::JobRecord& record,
                                                                const CheckpointName& name);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_BEST_CHECKPOINT_H_
